//! Lines: what an org pays for one item at one price in one period, with its evidence.
//!
//! Tiers, included units and minimums belong to an org, so a line covers all of its services. Its
//! value is shared out to them by quantity, without losing anything.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::OrgId;
use trueup_model::id::{DiscountId, PriceVersionId, SubscriptionId};
use trueup_model::money::Currency;
use trueup_model::price::{Discount, PriceItem, PriceVersion};
use trueup_model::usage::{Basis, Delivery, EvidenceHash, Owner, Span, UsageInterval};

use super::Terms;
use super::rounding::{NotComputable, Ratio, allocate};
use super::scheme::{cost, list_cost};
use crate::usage::hash;

/// The whole of a price, in the millionths that discounts are counted in.
const WHOLE_PPM: u32 = 1_000_000;

/// Who bears a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineClass {
    /// The org pays.
    Charged,
    /// No payer: nothing ran, and simulated usage is not charged.
    Simulated,
    /// The provider: it was not delivered.
    UnderDelivered,
    /// The provider: it has no owner.
    Orphan,
}

impl LineClass {
    /// The drift it is, if it is any.
    #[must_use]
    pub const fn drift(self) -> Option<Delivery> {
        match self {
            Self::Charged | Self::Simulated => None,
            Self::UnderDelivered => Some(Delivery::UnderDelivered),
            Self::Orphan => Some(Delivery::Orphan),
        }
    }

    /// Its text in hashes and tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Charged => "charged",
            Self::Simulated => "simulated",
            Self::UnderDelivered => "under_delivered",
            Self::Orphan => "orphan",
        }
    }
}

/// What identifies a line. It stays the same while usage is added to the line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LineKey {
    /// The org.
    pub org: OrgId,
    /// The billing period.
    pub period: Span,
    /// The item.
    pub item: PriceItem,
    /// Who bears it.
    pub class: LineClass,
    /// The beginning of the time in which the price holds, within the period.
    pub from: Timestamp,
    /// The price.
    pub version: PriceVersionId,
    /// The discount, if there is one.
    pub discount: Option<DiscountId>,
    /// The subscription that includes units of the item or has the fee, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<SubscriptionId>,
}

impl LineKey {
    /// Its hash, by which a line is found.
    #[must_use]
    pub fn hash(&self) -> EvidenceHash {
        hash::fields(&self.texts())
    }

    /// Its fields as texts, for hashes.
    pub(super) fn texts(&self) -> Vec<String> {
        let mut texts = vec![
            self.org.to_string(),
            self.period.from.as_microsecond().to_string(),
            self.period.until.as_microsecond().to_string(),
            self.item.to_string(),
            self.class.as_str().to_owned(),
            self.from.as_microsecond().to_string(),
            self.version.to_string(),
            self.discount.map(|discount| discount.to_string()).unwrap_or_default(),
        ];
        // Lines from before subscriptions keep their hash.
        texts.extend(self.subscription.map(|subscription| subscription.to_string()));
        texts
    }
}

/// The part of an interval that a line charges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The hash of the interval.
    pub interval: EvidenceHash,
    /// Whose it is.
    pub owner: Owner,
    /// The part.
    pub span: Span,
    /// How much, in millionths of the meter's unit.
    pub quantity_micros: i128,
    /// Whether it ran on a simulated node.
    pub simulated: bool,
    /// What the quantity is based on.
    pub basis: Basis,
}

impl Segment {
    /// The part of an interval within a span; `None` if there is no usage in it.
    pub(super) fn of(interval: &UsageInterval, span: Span) -> Option<Self> {
        let part = interval.span.overlap(span)?;
        let quantity_micros = interval.quantity.within(interval.span, part);
        (quantity_micros > 0).then_some(Self {
            interval: hash::content(interval),
            owner: interval.owner,
            span: part,
            quantity_micros,
            simulated: interval.simulated,
            basis: interval.basis,
        })
    }
}

/// The part of a line that one service caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Whose it is.
    pub owner: Owner,
    /// Its quantity, in millionths of the meter's unit.
    pub quantity_micros: i128,
    /// Its part of the line's value.
    pub value_micros: i64,
}

/// A rated line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What identifies it.
    pub key: LineKey,
    /// The end of the time in which the price holds, within the period.
    pub until: Timestamp,
    /// The currency of its amounts.
    pub currency: Currency,
    /// The quantity, in millionths of the meter's unit.
    pub quantity_micros: i128,
    /// The part of the quantity that was simulated.
    pub simulated_micros: i128,
    /// The part of the quantity that fills gaps.
    pub gap_micros: i128,
    /// The part of the quantity that a subscription includes.
    pub included_micros: i128,
    /// What it is worth, to the millionth: from the exact value, with a minimum.
    pub value_micros: i64,
    /// What the org pays, in the smallest payable unit: from the same exact value. Zero unless it
    /// is charged.
    pub amount_micros: i64,
    /// What the minimum added to both.
    pub minimum_micros: i64,
    /// Its services.
    pub shares: Vec<Share>,
    /// Its parts of intervals, in order of time.
    pub segments: Vec<Segment>,
}

/// The price of a line, and when it holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Priced<'a> {
    pub(super) version: &'a PriceVersion,
    pub(super) discount: Option<&'a Discount>,
    pub(super) span: Span,
    /// The subscription that includes units of the item, and how many millionths are left of them.
    pub(super) included: Option<(SubscriptionId, i128)>,
}

impl Line {
    /// The line of these segments, after `before` millionths of a unit that were not included, in the
    /// same period.
    pub(super) fn new(
        terms: &Terms,
        class: LineClass,
        priced: &Priced<'_>,
        before: i128,
        segments: Vec<Segment>,
    ) -> Result<Self, NotComputable> {
        let Priced { version, discount, span, included } = *priced;
        let is_charged = class == LineClass::Charged;
        let quantity_micros = quantity(&segments, |_| true);
        let included = included.filter(|_| is_charged);
        let free = included.map_or(0, |(_, left)| left.min(quantity_micros));
        let after = before.saturating_add(quantity_micros).saturating_sub(free);
        let exact = if is_charged {
            discounted(cost(&version.scheme, before, after)?, discount)?
        } else {
            list_cost(&version.scheme, quantity_micros)?
        };
        let key = LineKey {
            org: terms.org,
            period: terms.period,
            item: version.item.clone(),
            class,
            from: span.from,
            version: version.id,
            discount: discount.filter(|_| is_charged).map(|discount| discount.id),
            subscription: included.map(|(subscription, _)| subscription),
        };
        Ok(Self {
            key,
            until: span.until,
            currency: version.currency,
            quantity_micros,
            simulated_micros: quantity(&segments, |segment| segment.simulated),
            gap_micros: quantity(&segments, |segment| segment.basis != Basis::Observed),
            included_micros: free,
            value_micros: exact.round_to(1)?,
            amount_micros: if is_charged { exact.round_to(terms.unit_micros)? } else { 0 },
            minimum_micros: 0,
            shares: Vec::new(),
            segments,
        })
    }

    /// Divides the value among the services by their quantities.
    pub(super) fn share_out(&mut self) -> Result<(), NotComputable> {
        let mut owners: BTreeMap<Owner, i128> = BTreeMap::new();
        for segment in &self.segments {
            let sum = owners.entry(segment.owner).or_default();
            *sum = sum.saturating_add(segment.quantity_micros);
        }
        let weights: Vec<i128> = owners.values().copied().collect();
        let values = allocate(self.value_micros, &weights)?;
        let share = |((owner, quantity_micros), value_micros)| Share {
            owner,
            quantity_micros,
            value_micros,
        };
        self.shares = owners.into_iter().zip(values).map(share).collect();
        Ok(())
    }

    /// What rounding to the payable unit added; negative if it took something off.
    #[must_use]
    pub const fn residue_micros(&self) -> i64 {
        match self.key.class {
            LineClass::Charged => self.amount_micros.saturating_sub(self.value_micros),
            LineClass::Simulated | LineClass::UnderDelivered | LineClass::Orphan => 0,
        }
    }

    /// A hash of its price, its amounts and every part of an interval in it.
    #[must_use]
    pub fn evidence(&self) -> EvidenceHash {
        let mut texts = vec!["trueup line 1".to_owned()];
        texts.extend(self.key.texts());
        texts.extend([self.value_micros.to_string(), self.amount_micros.to_string()]);
        for segment in &self.segments {
            texts.extend([
                segment.interval.to_string(),
                segment.span.from.as_microsecond().to_string(),
                segment.span.until.as_microsecond().to_string(),
                segment.quantity_micros.to_string(),
            ]);
        }
        hash::fields(&texts)
    }
}

/// Raises the last line, so that together they reach the minimum of an item.
pub(super) fn top_up(lines: &mut [Line], minimum: i64, unit: i64) -> Result<(), NotComputable> {
    let minimum = Ratio::new(i128::from(minimum), 1)?.round_to(unit)?;
    let amount = lines.iter().fold(0_i64, |sum, line| sum.saturating_add(line.amount_micros));
    let missing = minimum.saturating_sub(amount);
    if let Some(last) = lines.last_mut().filter(|_| missing > 0) {
        last.minimum_micros = missing;
        last.value_micros = last.value_micros.saturating_add(missing);
        last.amount_micros = last.amount_micros.saturating_add(missing);
    }
    Ok(())
}

fn discounted(exact: Ratio, discount: Option<&Discount>) -> Result<Ratio, NotComputable> {
    let Some(discount) = discount else { return Ok(exact) };
    let left = WHOLE_PPM.saturating_sub(discount.off_ppm);
    exact.times(i128::from(left), i128::from(WHOLE_PPM))
}

fn quantity(segments: &[Segment], counts: fn(&Segment) -> bool) -> i128 {
    let counted = segments.iter().filter(|segment| counts(segment));
    counted.fold(0_i128, |sum, segment| sum.saturating_add(segment.quantity_micros))
}
