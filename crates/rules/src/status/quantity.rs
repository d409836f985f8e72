//! Parses Kubernetes quantities, exactly and without floating point.

/// A quantity in whole units of `1/per`, rounded up; `None` if the text is not a quantity.
///
/// `per` is 1000 for thousandths of a core and 1 for bytes.
#[must_use]
pub(crate) fn amount(text: &str, per: u64) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let (times, over) = unit(suffix)?;
    let decimals = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let dividend = digits.checked_mul(times)?.checked_mul(u128::from(per))?;
    u64::try_from(dividend.div_ceil(over.checked_mul(decimals)?)).ok()
}

/// The multiplier and divisor of a suffix.
fn unit(suffix: &str) -> Option<(u128, u128)> {
    let binary = |power: u32| 1024_u128.checked_pow(power).map(|times| (times, 1));
    let decimal = |power: u32| 1000_u128.checked_pow(power).map(|times| (times, 1));
    match suffix {
        "" => Some((1, 1)),
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1000)),
        "k" => decimal(1),
        "M" => decimal(2),
        "G" => decimal(3),
        "T" => decimal(4),
        "P" => decimal(5),
        "E" => decimal(6),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            let times = 10_u128.checked_pow(power.unsigned_abs())?;
            Some(if power < 0 { (1, times) } else { (times, 1) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notation_of_the_server_is_parsed() {
        for (text, per, wanted) in [
            ("100m", 1000, Some(100)),
            ("1", 1000, Some(1000)),
            ("0.5", 1000, Some(500)),
            ("1500u", 1000, Some(2)),
            ("64Mi", 1, Some(67_108_864)),
            ("1.5Gi", 1, Some(1_610_612_736)),
            ("128974848", 1, Some(128_974_848)),
            ("129e6", 1, Some(129_000_000)),
            ("5k", 1, Some(5000)),
            ("8", 1, Some(8)),
            (".5Gi", 1, Some(536_870_912)),
            ("", 1, None),
            ("Gi", 1, None),
            ("1.2.3", 1, None),
            ("1 Gi", 1, None),
            ("-1", 1, None),
            ("99999999999999999999Ei", 1, None),
        ] {
            assert_eq!(amount(text, per), wanted, "{text}");
        }
    }
}
