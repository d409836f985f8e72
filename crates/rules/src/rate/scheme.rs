//! What units cost under a scheme.
//!
//! The cost of a part of a period is the difference of two running totals: from its beginning to
//! the end of the part, less to the beginning of the part. So tiers, packages and included units
//! are counted once per period, however it is split.

use trueup_model::price::{Charge, Scheme, Tier};
use trueup_model::usage::MICROS;

use super::rounding::{NotComputable, Ratio};

/// The exact cost of the units from `before` to `after`, both in millionths of a unit since the
/// beginning of the period.
///
/// # Errors
/// The price is for zero units, has no tiers, or the cost is too large.
pub fn cost(scheme: &Scheme, before: i128, after: i128) -> Result<Ratio, NotComputable> {
    let included = i128::from(scheme.included_units).saturating_mul(MICROS);
    let billable = |units: i128| units.saturating_sub(included).max(0);
    charge(&scheme.charge, billable(before), billable(after))
}

/// The exact cost of a quantity by itself: nothing is included and nothing came before.
///
/// # Errors
/// As [`cost`].
pub fn list_cost(scheme: &Scheme, quantity: i128) -> Result<Ratio, NotComputable> {
    charge(&scheme.charge, 0, quantity)
}

fn charge(charge: &Charge, before: i128, after: i128) -> Result<Ratio, NotComputable> {
    let units = after.saturating_sub(before);
    match charge {
        Charge::PerUnit { micros, per } => linear(units, *micros, *per),
        Charge::Graduated { per, tiers } => graduated(tiers, *per, before, after),
        Charge::Volume { per, tiers } => linear(units, reached(tiers, after)?.micros, *per),
        Charge::Package { micros, units } => {
            let size = i128::from(*units).saturating_mul(MICROS);
            let begun = |until: i128| {
                let filled = until.saturating_add(size.saturating_sub(1));
                filled.checked_div(size).ok_or(NotComputable)
            };
            let packages = begun(after)?.saturating_sub(begun(before)?);
            Ratio::new(packages, 1)?.times(i128::from(*micros), 1)
        }
    }
}

/// Units in millionths, at a price for `per` whole units.
fn linear(units: i128, micros: i64, per: u64) -> Result<Ratio, NotComputable> {
    Ratio::new(units, i128::from(per).saturating_mul(MICROS))?.times(i128::from(micros), 1)
}

fn graduated(tiers: &[Tier], per: u64, before: i128, after: i128) -> Result<Ratio, NotComputable> {
    let last = tiers.len().checked_sub(1).ok_or(NotComputable)?;
    let mut lower: i128 = 0;
    let mut sum: i128 = 0;
    for (index, tier) in tiers.iter().enumerate() {
        let upper = bound(tier).filter(|_| index < last).unwrap_or(i128::MAX);
        let units = after.min(upper).saturating_sub(before.max(lower)).max(0);
        let cost = units.checked_mul(i128::from(tier.micros)).ok_or(NotComputable)?;
        sum = sum.checked_add(cost).ok_or(NotComputable)?;
        lower = upper;
    }
    Ratio::new(sum, i128::from(per).saturating_mul(MICROS))
}

/// The tier that a quantity reaches.
fn reached(tiers: &[Tier], units: i128) -> Result<&Tier, NotComputable> {
    let found = tiers.iter().find(|tier| bound(tier).is_none_or(|bound| units <= bound));
    found.or_else(|| tiers.last()).ok_or(NotComputable)
}

fn bound(tier: &Tier) -> Option<i128> {
    tier.up_to.map(|units| i128::from(units).saturating_mul(MICROS))
}
