//! Subscriptions: which offer held when, and what it adds to a billing period.
//!
//! Changes are recorded and never rewritten. A change that was recorded later replaces everything
//! that was to hold from its moment on, so the end of a subscription is computed, not stored. What
//! an invoice was computed from can therefore be read again as it was known then.
//!
//! A part of a period has its part of the fee and of the included units. A part is the difference of
//! two totals that are counted from the beginning of the period, so the parts always add up.

use jiff::Timestamp;
use trueup_model::money::Money;
use trueup_model::offer::{Offer, Subscription};
use trueup_model::price::{Discount, PriceItem, PriceVersion};
use trueup_model::quota::{Amounts, Resource};
use trueup_model::usage::{MICROS, Span};

use super::Terms;
use super::line::{Line, LineClass, LineKey};
use super::rounding::{NotComputable, Ratio};

/// What held when, in order of time, by what was recorded until a moment.
#[must_use]
pub fn timeline(recorded: &[Subscription], until: Option<Timestamp>) -> Vec<Subscription> {
    let is_known = |one: &&Subscription| until.is_none_or(|until| one.created_at <= until);
    let mut known: Vec<Subscription> = recorded.iter().filter(is_known).cloned().collect();
    known.sort_by_key(|one| one.number);
    let mut held: Vec<Subscription> = Vec::new();
    for mut next in known {
        held.retain(|one| one.from < next.from);
        if let Some(last) = held.last_mut() {
            last.until = Some(next.from);
        }
        next.until = None;
        held.push(next);
    }
    held
}

/// The subscription that holds at a moment.
#[must_use]
pub fn held_at(timeline: &[Subscription], at: Timestamp) -> Option<&Subscription> {
    timeline.iter().find(|one| one.holds_at(at))
}

/// The prices that hold for the org instead of list prices.
pub fn prices(timeline: &[Subscription]) -> impl Iterator<Item = PriceVersion> + '_ {
    timeline.iter().flat_map(|held| {
        held.offer.prices.iter().map(|price| PriceVersion {
            id: price.id,
            item: price.item.clone(),
            org: Some(held.org),
            currency: held.offer.currency,
            from: held.from,
            until: held.until,
            scheme: price.scheme.clone(),
        })
    })
}

/// The discounts of the org.
pub fn discounts(timeline: &[Subscription]) -> impl Iterator<Item = Discount> + '_ {
    timeline.iter().flat_map(|held| {
        held.offer.discounts.iter().map(|discount| Discount {
            id: discount.id,
            org: held.org,
            item: discount.item.clone(),
            from: held.from,
            until: held.until,
            off_ppm: discount.off_ppm,
        })
    })
}

/// The part of a period in which a subscription holds.
#[must_use]
pub fn part(held: &Subscription, period: Span) -> Option<Span> {
    Span::new(held.from, held.until.unwrap_or(period.until))?.overlap(period)
}

/// The units of an item that a subscription includes in a part of a period, in millionths.
///
/// # Errors
/// The amount is too large.
pub fn included(
    offer: &Offer,
    item: &PriceItem,
    part: Span,
    period: Span,
) -> Result<Option<i128>, NotComputable> {
    let units = offer.included.iter().find(|one| one.item == *item).map(|one| one.units);
    units.map(|units| portion(i128::from(units).saturating_mul(MICROS), part, period)).transpose()
}

/// The part of an amount of a whole period that falls into a part of it.
fn portion(amount: i128, part: Span, period: Span) -> Result<i128, NotComputable> {
    let total = |until: Timestamp| {
        let elapsed = Span::new(period.from, until).map_or(0, |span| i128::from(span.micros()));
        let product = amount.checked_mul(elapsed).ok_or(NotComputable)?;
        product.checked_div(i128::from(period.micros())).ok_or(NotComputable)
    };
    Ok(total(part.until)?.saturating_sub(total(part.from)?))
}

/// The lines of the fees of a period: one for each part of it that a subscription holds.
///
/// # Errors
/// An amount is too large.
pub fn fees(terms: &Terms, timeline: &[Subscription]) -> Result<Vec<Line>, NotComputable> {
    let mut lines = Vec::new();
    for held in timeline.iter().filter(|held| held.offer.currency == terms.currency) {
        let Some(part) = part(held, terms.period) else { continue };
        if held.offer.fee_micros == 0 {
            continue;
        }
        let value = portion(i128::from(held.offer.fee_micros), part, terms.period)?;
        lines.push(Line {
            key: LineKey {
                org: terms.org,
                period: terms.period,
                item: PriceItem::Subscription { offer: held.offer.name.clone() },
                class: LineClass::Charged,
                from: part.from,
                version: held.offer.fee,
                discount: None,
                subscription: Some(held.id),
            },
            until: part.until,
            currency: terms.currency,
            quantity_micros: portion(MICROS, part, terms.period)?,
            simulated_micros: 0,
            gap_micros: 0,
            included_micros: 0,
            value_micros: i64::try_from(value).map_err(|_| NotComputable)?,
            amount_micros: Ratio::new(value, 1)?.round_to(terms.unit_micros)?,
            minimum_micros: 0,
            shares: Vec::new(),
            segments: Vec::new(),
        });
    }
    Ok(lines)
}

/// What is used of a resource that an offer limits more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excess {
    /// The resource.
    pub resource: Resource,
    /// How much is used.
    pub used: i64,
    /// How much the offer allows.
    pub limit: i64,
}

/// The resources of which more is used than an offer allows.
#[must_use]
pub fn exceeded(offer: &Offer, used: Amounts) -> Vec<Excess> {
    let all = Resource::ALL.into_iter().map(|resource| Excess {
        resource,
        used: used.get(resource),
        limit: offer.limits.get(resource),
    });
    all.filter(|one| one.used > one.limit).collect()
}

/// The fee of an offer.
#[must_use]
pub const fn fee(offer: &Offer) -> Money {
    Money { micros: offer.fee_micros, currency: offer.currency }
}
