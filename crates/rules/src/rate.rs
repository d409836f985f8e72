//! Rating: usage intervals and price versions become lines, and lines become ledger entries.
//!
//! Rating is a pure function. Intervals are split exactly at price changes and at the ends of the
//! billing period. The quantity of each part is exact; a line is rounded once, half away from
//! zero, and what rounding adds or takes goes to an account of its own.

pub mod account;
pub mod breakdown;
pub mod charge;
pub mod credit;
pub mod focus;
pub mod invoice;
pub mod line;
pub mod offer_check;
pub mod period;
pub mod posting;
pub mod price_check;
pub mod publish;
pub mod rounding;
pub mod scheme;
pub mod subscription;
mod window;

use std::collections::BTreeMap;

use trueup_model::OrgId;
use trueup_model::id::SubscriptionId;
use trueup_model::money::Currency;
use trueup_model::offer::Subscription;
use trueup_model::price::{Discount, PriceItem, PriceVersion};
use trueup_model::usage::{Delivery, EvidenceHash, Span, UsageInterval};

pub use rounding::NotComputable;
pub use window::version_at;

use crate::usage::hash;
use line::{Line, LineClass, Segment};
use window::{Window, windows};

/// Whose usage is rated, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The org.
    pub org: OrgId,
    /// Its currency. Prices in another one do not apply.
    pub currency: Currency,
    /// The billing period, computed once in the org's time zone.
    pub period: Span,
    /// The smallest amount that can be paid, in millionths: see [`rounding::minor_unit`].
    pub unit_micros: i64,
    /// Whether usage on simulated nodes is charged.
    pub charge_simulated: bool,
}

/// Prices and discounts of any items, orgs and currencies, in any order.
#[derive(Debug, Clone, Copy, Default)]
pub struct PriceList<'a> {
    /// The price versions.
    pub versions: &'a [PriceVersion],
    /// The discounts.
    pub discounts: &'a [Discount],
    /// What the org subscribed to, as [`subscription::timeline`] says.
    pub subscriptions: &'a [Subscription],
}

/// The result of rating.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rated {
    /// The lines, by item, class and beginning.
    pub lines: Vec<Line>,
    /// Usage without a price. It is never rated as zero.
    pub unpriced: Vec<Unpriced>,
}

/// A part of an interval that no price version covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpriced {
    /// What was used.
    pub item: PriceItem,
    /// The part.
    pub segment: Segment,
    /// Why it has no price.
    pub reason: UnpricedReason,
}

/// Why usage has no price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnpricedReason {
    /// The item has no price in any currency, such as CPU where plans are sold.
    NotSold,
    /// The item has prices, but none in the org's currency.
    OtherCurrency,
    /// The item has prices in the org's currency, but none at that time.
    NotInForce,
}

/// Rates the usage of one org in one period.
///
/// Intervals of other orgs and times are ignored. A repeated interval counts once, and of an
/// interval that grew, the newest state.
///
/// # Errors
/// A price is for zero units, or an amount is larger than the ledger can hold.
pub fn rate(
    terms: &Terms,
    prices: &PriceList<'_>,
    intervals: &[UsageInterval],
) -> Result<Rated, NotComputable> {
    let mut rated =
        Rated { lines: subscription::fees(terms, prices.subscriptions)?, unpriced: Vec::new() };
    for ((item, class), usage) in by_item(terms, intervals) {
        let mut lines: Vec<Line> = Vec::new();
        let mut minimum_micros = 0;
        // The units of the period so far: included units of a price and tiers count from its
        // beginning, also when the price changes.
        let mut before: i128 = 0;
        // What is left of the units that each subscription includes.
        let mut left: BTreeMap<SubscriptionId, i128> = BTreeMap::new();
        for window in windows(terms, prices, &item) {
            let segments = segments(&usage, window.span);
            if segments.is_empty() {
                continue;
            }
            let Window { version: Some(version), discount, .. } = window else {
                let reason = reason(terms, prices, &item);
                let unpriced = |segment| Unpriced { item: item.clone(), segment, reason };
                rated.unpriced.extend(segments.into_iter().map(unpriced));
                continue;
            };
            let included = include(terms, window.subscription, &item, &mut left)?;
            let priced = line::Priced { version, discount, span: window.span, included };
            let line = Line::new(terms, class, &priced, before, segments)?;
            if let Some((subscription, units)) = included {
                left.insert(subscription, units.saturating_sub(line.included_micros));
            }
            let counted = line.quantity_micros.saturating_sub(line.included_micros);
            before = before.saturating_add(counted);
            minimum_micros = version.scheme.minimum_micros;
            lines.push(line);
        }
        if class == LineClass::Charged {
            line::top_up(&mut lines, minimum_micros, terms.unit_micros)?;
        }
        for line in &mut lines {
            line.share_out()?;
        }
        rated.lines.append(&mut lines);
    }
    Ok(rated)
}

/// What is left of the units that a subscription includes of an item, in its part of the period.
fn include(
    terms: &Terms,
    held: Option<&Subscription>,
    item: &PriceItem,
    left: &mut BTreeMap<SubscriptionId, i128>,
) -> Result<Option<(SubscriptionId, i128)>, NotComputable> {
    let Some(held) = held else { return Ok(None) };
    let Some(part) = subscription::part(held, terms.period) else { return Ok(None) };
    let units = match left.get(&held.id) {
        Some(units) => *units,
        None => subscription::included(&held.offer, item, part, terms.period)?.unwrap_or(0),
    };
    Ok(Some((held.id, units)))
}

type ByItem<'a> = BTreeMap<(PriceItem, LineClass), Vec<&'a UsageInterval>>;

/// The intervals of each item, so that neither order nor repetition matters.
fn by_item<'a>(terms: &Terms, intervals: &'a [UsageInterval]) -> ByItem<'a> {
    let mut items = ByItem::new();
    for interval in newest(terms.org, intervals).into_values() {
        let item = PriceItem::of(interval.meter, interval.plan.as_ref());
        let is_free = interval.simulated && !terms.charge_simulated;
        let class = match (is_free, interval.delivery) {
            (true, _) => LineClass::Simulated,
            (false, Delivery::Delivered) => LineClass::Charged,
            (false, Delivery::UnderDelivered) => LineClass::UnderDelivered,
            (false, Delivery::Orphan) => LineClass::Orphan,
        };
        items.entry((item, class)).or_default().push(interval);
    }
    items
}

/// The intervals of an org by their identity; of one that grew, the state with the newest evidence.
fn newest(org: OrgId, intervals: &[UsageInterval]) -> BTreeMap<EvidenceHash, &UsageInterval> {
    let age = |interval: &UsageInterval| {
        (interval.provenance.last.seen_at, interval.span.until, hash::content(interval))
    };
    let mut newest: BTreeMap<EvidenceHash, &UsageInterval> = BTreeMap::new();
    for interval in intervals.iter().filter(|interval| interval.owner.org == org) {
        let known = newest.entry(hash::identity(interval)).or_insert(interval);
        if age(known) < age(interval) {
            *known = interval;
        }
    }
    newest
}

/// The parts of intervals inside a span, in order of time.
fn segments(usage: &[&UsageInterval], span: Span) -> Vec<Segment> {
    let parts = usage.iter().filter_map(|interval| Segment::of(interval, span));
    let mut segments: Vec<Segment> = parts.collect();
    segments.sort_by_key(|segment| (segment.span.from, segment.interval));
    segments
}

fn reason(terms: &Terms, prices: &PriceList<'_>, item: &PriceItem) -> UnpricedReason {
    let is_for = |version: &&PriceVersion| {
        version.item == *item && version.org.is_none_or(|org| org == terms.org)
    };
    let mut sold = prices.versions.iter().filter(is_for).peekable();
    if sold.peek().is_none() {
        UnpricedReason::NotSold
    } else if sold.any(|version| version.currency == terms.currency) {
        UnpricedReason::NotInForce
    } else {
        UnpricedReason::OtherCurrency
    }
}
