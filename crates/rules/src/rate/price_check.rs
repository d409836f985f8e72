//! Which prices and discounts are refused.

use jiff::Timestamp;
use trueup_model::id::PriceVersionId;
use trueup_model::price::{Charge, Discount, PriceVersion, Tier};

/// Why a price or a discount is refused. The message says what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// Its validity is empty.
    #[error("`until` must be later than `from`")]
    EmptyValidity,
    /// Another version holds at the same time.
    #[error("overlaps price version {with}; end that one first, or begin when it ends")]
    Overlap {
        /// The other version.
        with: PriceVersionId,
    },
    /// An amount is below zero.
    #[error("amounts must not be negative")]
    Negative,
    /// A price is for no units at all.
    #[error("the number of units that a price is for must be at least 1")]
    NoUnits,
    /// The tiers do not cover every quantity exactly once.
    #[error("tiers must ascend, and only the last one must be without `up_to`")]
    Tiers,
    /// A discount of nothing, or of more than the price.
    #[error("a discount must take off 1 to 1000000 millionths")]
    Discount,
}

/// Checks a new price version against those that exist.
///
/// # Errors
/// It is invalid, or it overlaps another version of the same item, currency and org.
pub fn check_price(new: &PriceVersion, existing: &[PriceVersion]) -> Result<(), PriceError> {
    if new.until.is_some_and(|until| until <= new.from) {
        return Err(PriceError::EmptyValidity);
    }
    if new.scheme.minimum_micros < 0 {
        return Err(PriceError::Negative);
    }
    check_charge(&new.scheme.charge)?;
    let same = |other: &&PriceVersion| {
        (&other.item, other.currency, other.org) == (&new.item, new.currency, new.org)
            && other.id != new.id
    };
    let begins_before =
        |from: Timestamp, until: Option<Timestamp>| until.is_none_or(|end| from < end);
    let overlaps = |other: &&PriceVersion| {
        begins_before(new.from, other.until) && begins_before(other.from, new.until)
    };
    match existing.iter().filter(same).find(overlaps) {
        Some(other) => Err(PriceError::Overlap { with: other.id }),
        None => Ok(()),
    }
}

/// Checks a discount.
///
/// # Errors
/// It is invalid.
pub fn check_discount(discount: &Discount) -> Result<(), PriceError> {
    if discount.until.is_some_and(|until| until <= discount.from) {
        return Err(PriceError::EmptyValidity);
    }
    if (1..=1_000_000).contains(&discount.off_ppm) { Ok(()) } else { Err(PriceError::Discount) }
}

fn check_charge(charge: &Charge) -> Result<(), PriceError> {
    let (units, amounts): (u64, Vec<i64>) = match charge {
        Charge::PerUnit { micros, per } => (*per, vec![*micros]),
        Charge::Package { micros, units } => (*units, vec![*micros]),
        Charge::Graduated { per, tiers } | Charge::Volume { per, tiers } => {
            check_tiers(tiers)?;
            (*per, tiers.iter().map(|tier| tier.micros).collect())
        }
    };
    if units == 0 {
        return Err(PriceError::NoUnits);
    }
    if amounts.iter().any(|micros| *micros < 0) { Err(PriceError::Negative) } else { Ok(()) }
}

fn check_tiers(tiers: &[Tier]) -> Result<(), PriceError> {
    let Some((last, bounded)) = tiers.split_last() else { return Err(PriceError::Tiers) };
    let bounds: Option<Vec<u64>> = bounded.iter().map(|tier| tier.up_to).collect();
    let ascend = bounds.is_some_and(|bounds| {
        bounds.first().is_none_or(|first| *first > 0) && bounds.is_sorted_by(|a, b| a < b)
    });
    if ascend && last.up_to.is_none() { Ok(()) } else { Err(PriceError::Tiers) }
}
