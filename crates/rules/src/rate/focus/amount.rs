//! Quantities, prices and costs as decimal numbers.

use trueup_model::price::{Charge as Price, PriceVersion, Scheme};
use trueup_model::usage::{MICROS, Meter};

use crate::rate::charge::Charge;
use crate::rate::scheme;

/// How many decimal places prices and quantities have, at most.
const DIGITS: u32 = 12;

/// The unit that prices of a meter, or else of a fee, are stated in, and how many units of the meter it has.
pub(super) const fn pricing_unit(meter: Option<Meter>) -> (&'static str, i128) {
    match meter {
        Some(Meter::PodSeconds) => ("Hours", 3600),
        Some(Meter::CpuMilliSeconds) => ("Core-Hours", 3_600_000),
        Some(Meter::MemoryMibSeconds) => ("GiB-Hours", 3600 * 1024),
        Some(Meter::GpuSeconds) => ("GPU-Hours", 3600),
        Some(Meter::DiskGibSeconds) => ("GiB-Hours", 3600),
        Some(Meter::EgressBytes) => ("GB", 1_000_000_000),
        None => ("Months", 1),
    }
}

/// An amount in millionths of a currency's unit.
pub(super) fn cost(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let micros = micros.unsigned_abs();
    format!("{sign}{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// A quantity in the unit of its meter.
pub(super) fn units(quantity_micros: i128) -> String {
    decimal(quantity_micros, MICROS)
}

/// A quantity in the unit that it is priced in.
pub(super) fn pricing_quantity(meter: Option<Meter>, quantity_micros: i128) -> String {
    decimal(quantity_micros, pricing_unit(meter).1.saturating_mul(MICROS))
}

/// What the quantity costs at the list price. A charge at a list price costs what was charged.
pub(super) fn list_cost(
    list: &PriceVersion,
    charged: &PriceVersion,
    charge: &Charge,
) -> Option<i64> {
    let quantity = charge.quantity_micros;
    let at = |scheme: &Scheme| scheme::list_cost(scheme, quantity).ok()?.round_to(1).ok();
    let listed = at(&list.scheme)?;
    // Shares of a line are rounded together, which may move a millionth from one to another.
    let is_same = list.id == charged.id && listed.abs_diff(charge.micros) <= 1;
    Some(if is_same { charge.micros } else { listed })
}

/// The price of one pricing unit. With tiers, packages and included units there is no single one,
/// so that it is what a unit cost on average.
pub(super) fn unit_price(scheme: Option<&Scheme>, meter: Option<Meter>, charge: &Charge) -> String {
    let (_, units) = pricing_unit(meter);
    let plain = scheme.and_then(|scheme| match &scheme.charge {
        Price::PerUnit { micros, per } if scheme.included_units == 0 => Some((*micros, *per)),
        Price::PerUnit { .. }
        | Price::Graduated { .. }
        | Price::Volume { .. }
        | Price::Package { .. } => None,
    });
    match plain {
        Some((micros, per)) => decimal(
            i128::from(micros).saturating_mul(units),
            i128::from(per).saturating_mul(1_000_000),
        ),
        None if charge.quantity_micros == 0 => String::new(),
        None => decimal(i128::from(charge.micros).saturating_mul(units), charge.quantity_micros),
    }
}

/// A fraction as a decimal number with at least one and at most [`DIGITS`] decimal places.
fn decimal(numerator: i128, denominator: i128) -> String {
    let scale = 10_i128.pow(DIGITS);
    let sign = if (numerator < 0) == (denominator < 0) { "" } else { "-" };
    let (numerator, denominator) = (numerator.unsigned_abs(), denominator.unsigned_abs());
    let whole = numerator.checked_div(denominator).unwrap_or(0);
    let rest = numerator.checked_rem(denominator).unwrap_or(0);
    let fraction = rest
        .checked_mul(scale.unsigned_abs())
        .and_then(|rest| rest.checked_div(denominator))
        .unwrap_or(0);
    let sign = if whole == 0 && fraction == 0 { "" } else { sign };
    let text = format!("{fraction:012}");
    let digits = text.trim_end_matches('0').len().max(1);
    let text: String = text.chars().take(digits).collect();
    format!("{sign}{whole}.{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact_and_never_negative_zero() {
        let table = [
            ((0, 1), "0.0"),
            ((3, 2), "1.5"),
            ((-3, 2), "-1.5"),
            ((1, 3), "0.333333333333"),
            ((-1, 10_i128.pow(14)), "0.0"),
            ((1_080_000_000_000, MICROS * 3600), "300.0"),
        ];
        for ((numerator, denominator), expected) in table {
            assert_eq!(decimal(numerator, denominator), expected);
        }
        assert_eq!(cost(-1), "-0.000001");
        assert_eq!(cost(i64::MIN), "-9223372036854.775808");
    }
}
