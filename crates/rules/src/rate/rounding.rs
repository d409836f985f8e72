//! Exact amounts, and how they become integers: once per line, half away from zero.
//!
//! Half away from zero is the rounding that people do by hand, and it treats a charge and its
//! reversal alike.

use std::cmp::Reverse;

use trueup_model::money::Currency;

/// An amount cannot be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the amount cannot be computed: a price is for zero units, or the amount is larger than the \
     ledger can hold; correct the price version"
)]
pub struct NotComputable;

/// An exact amount in millionths of the currency's unit, as a fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    numerator: i128,
    denominator: i128,
}

impl Ratio {
    /// A fraction.
    ///
    /// # Errors
    /// The denominator is not positive.
    pub fn new(numerator: i128, denominator: i128) -> Result<Self, NotComputable> {
        if denominator > 0 { Ok(Self { numerator, denominator }) } else { Err(NotComputable) }
    }

    /// This amount times a fraction.
    ///
    /// # Errors
    /// The result is too large.
    pub fn times(self, numerator: i128, denominator: i128) -> Result<Self, NotComputable> {
        let numerator = self.numerator.checked_mul(numerator).ok_or(NotComputable)?;
        let denominator = self.denominator.checked_mul(denominator).ok_or(NotComputable)?;
        Self::new(numerator, denominator)
    }

    /// The nearest multiple of `unit`; of two that are equally near, the one away from zero.
    ///
    /// # Errors
    /// The unit is not positive, or the result is too large.
    pub fn round_to(self, unit: i64) -> Result<i64, NotComputable> {
        let rounded = || {
            let unit = i128::from(unit);
            let divisor = self.denominator.checked_mul(unit).filter(|divisor| *divisor > 0)?;
            let twice = self.numerator.checked_abs()?.checked_mul(2)?;
            let units = twice.checked_add(divisor)?.checked_div(divisor.checked_mul(2)?)?;
            let amount = units.checked_mul(unit)?.checked_mul(self.numerator.signum())?;
            i64::try_from(amount).ok()
        };
        rounded().ok_or(NotComputable)
    }
}

/// The smallest amount of a currency that can be paid, in millionths of its unit.
#[must_use]
pub fn minor_unit(currency: Currency) -> i64 {
    match currency.to_string().as_str() {
        "BIF" | "CLP" | "DJF" | "GNF" | "ISK" | "JPY" | "KMF" | "KRW" | "PYG" | "RWF" | "UGX"
        | "VND" | "VUV" | "XAF" | "XOF" | "XPF" => 1_000_000,
        "BHD" | "IQD" | "JOD" | "KWD" | "LYD" | "OMR" | "TND" => 1_000,
        _ => 10_000,
    }
}

/// Divides an amount by weights, without losing or adding anything.
///
/// Everyone gets the share that is rounded down; what is left goes to the largest remainders, one
/// each, and of equal ones to the first.
///
/// # Errors
/// The amount or a weight is too large.
pub fn allocate(total: i64, weights: &[i128]) -> Result<Vec<i64>, NotComputable> {
    let sum = weights.iter().try_fold(0_i128, |sum, weight| sum.checked_add(*weight));
    let sum = sum.ok_or(NotComputable)?;
    if sum <= 0 {
        // Nothing to divide by: the first one gets all.
        let all = std::iter::once(total).chain(std::iter::repeat(0));
        return Ok(all.take(weights.len()).collect());
    }
    let mut parts: Vec<(usize, i64, i128)> = Vec::with_capacity(weights.len());
    for (index, weight) in weights.iter().enumerate() {
        let product = i128::from(total).checked_mul(*weight).ok_or(NotComputable)?;
        let part = i64::try_from(product.div_euclid(sum)).map_err(|_| NotComputable)?;
        parts.push((index, part, product.rem_euclid(sum)));
    }
    let given: i64 = parts.iter().map(|(_, part, _)| *part).fold(0, i64::saturating_add);
    let left = usize::try_from(total.saturating_sub(given)).unwrap_or(0);
    parts.sort_by_key(|(index, _, remainder)| (Reverse(*remainder), *index));
    for (_, part, _) in parts.iter_mut().take(left) {
        *part = part.saturating_add(1);
    }
    parts.sort_by_key(|(index, ..)| *index);
    Ok(parts.into_iter().map(|(_, part, _)| part).collect())
}
