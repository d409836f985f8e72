//! Where the capacity of a cluster went: nothing is used that is not accounted for.

use std::collections::BTreeMap;

use trueup_model::money::Currency;
use trueup_model::name::Name;
use trueup_model::plan::Plan;
use trueup_model::price::{PriceItem, PriceVersion};
use trueup_model::usage::{
    Basis, Delivery, Gap, Meter, Quantity, Source, Span, Unsold, UsageInterval, UsageRecord,
};

use super::{Nodes, piece};
use crate::rate::scheme::list_cost;

/// The use of a cluster's capacity over a span, in millionths of the meter's unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Balance {
    /// What all nodes had.
    pub capacity: i128,
    /// What was delivered.
    pub delivered: i128,
    /// What was on lost nodes.
    pub under_delivered: i128,
    /// What had no owner.
    pub orphan: i128,
    /// What may have been used, unobserved.
    pub gap: i128,
}

/// A balance whose parts add up: delivered, orphan, under-delivered, gap and idle are the capacity,
/// unless something is unexplained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// What all nodes had.
    pub capacity: i128,
    /// What was delivered.
    pub delivered: i128,
    /// What had no owner.
    pub orphan: i128,
    /// What was on lost nodes, as far as they existed.
    pub under_delivered: i128,
    /// What may have been used, as far as there was room for it.
    pub gap: i128,
    /// What was not used.
    pub idle: i128,
    /// What was used and cannot have been: more than all nodes had. A billing incident.
    pub unexplained: i128,
}

impl Balance {
    /// What was not used. A negative amount means that more was metered than existed.
    #[must_use]
    pub const fn idle(&self) -> i128 {
        self.capacity
            .saturating_sub(self.delivered)
            .saturating_sub(self.under_delivered)
            .saturating_sub(self.orphan)
            .saturating_sub(self.gap)
    }

    /// The parts of the capacity.
    ///
    /// What was observed must fit into the capacity. What was on a node that is gone, and what may
    /// have run unobserved, need not: another pod may have had that room.
    #[must_use]
    pub fn account(&self) -> Account {
        let observed = self.delivered.saturating_add(self.orphan);
        let mut left = self.capacity.saturating_sub(observed).max(0);
        let mut take = |wanted: i128| {
            let taken = wanted.clamp(0, left);
            left = left.saturating_sub(taken);
            taken
        };
        let (under_delivered, gap) = (take(self.under_delivered), take(self.gap));
        Account {
            capacity: self.capacity,
            delivered: self.delivered,
            orphan: self.orphan,
            under_delivered,
            gap,
            idle: left,
            unexplained: observed.saturating_sub(self.capacity).max(0),
        }
    }
}

/// The meters that nodes have a capacity of.
pub const METERS: [Meter; 3] = [Meter::CpuMilliSeconds, Meter::MemoryMibSeconds, Meter::GpuSeconds];

/// The balance of a meter that nodes have a capacity of: CPU, memory or GPUs.
#[must_use]
pub fn balance(
    meter: Meter,
    span: Span,
    nodes: &Nodes,
    intervals: &[UsageInterval],
    gaps: &[Gap],
) -> Balance {
    let mut balance = Balance { capacity: nodes.capacity(meter, span), ..Balance::default() };
    // What fills a gap by its policy is counted as the gap.
    let observed = intervals.iter().filter(|interval| interval.basis == Basis::Observed);
    for interval in observed.filter(|interval| interval.meter == meter) {
        let Some(part) = interval.span.overlap(span) else { continue };
        let account = match interval.delivery {
            Delivery::Delivered => &mut balance.delivered,
            Delivery::UnderDelivered => &mut balance.under_delivered,
            Delivery::Orphan => &mut balance.orphan,
        };
        *account = account.saturating_add(interval.quantity.within(interval.span, part));
    }
    for gap in gaps {
        let Some(part) = gap.span.overlap(span) else { continue };
        let rates = piece::rates(gap.source, &gap.last_known);
        let units = rates.iter().find(|(one, _)| *one == meter).map_or(0, |(_, units)| *units);
        let used = i128::from(units).saturating_mul(i128::from(part.micros()));
        balance.gap = balance.gap.saturating_add(used);
    }
    balance
}

/// The prices of what was not sold.
#[derive(Debug, Clone, Copy)]
pub struct ListPrices<'a> {
    /// The price versions. Only list prices count.
    pub versions: &'a [PriceVersion],
    /// The plans on offer, for objects that have none.
    pub plans: &'a [Plan],
}

/// What the unsold capacity of a span would have cost, at the list prices of that time.
///
/// A pod without a plan is priced as the cheapest plan that fits it.
#[must_use]
pub fn unsold(
    span: Span,
    prices: &ListPrices<'_>,
    records: &[UsageRecord],
    gaps: &[Gap],
) -> BTreeMap<(Unsold, Currency), i64> {
    let mut sums: BTreeMap<(Unsold, Currency), i64> = BTreeMap::new();
    let mut add = |why: Unsold, item: &PriceItem, whole: Span, units: u64| {
        let Some(part) = whole.overlap(span) else { return };
        for (currency, micros) in prices.cost(item, part, units) {
            let sum = sums.entry((why, currency)).or_default();
            *sum = sum.saturating_add(micros);
        }
    };
    for record in records.iter().filter(|record| record.basis == Basis::Observed) {
        let why = match record.delivery {
            Delivery::Delivered => continue,
            Delivery::UnderDelivered => Unsold::UnderDelivered,
            Delivery::Orphan => Unsold::Orphan,
        };
        let meter = sold(record.source);
        let Some(units) = meter.and_then(|meter| per_second(record, meter)) else { continue };
        let fitting = || prices.fitting(record).map(|plan| &plan.name);
        let plan = record.plan.as_ref().or_else(fitting);
        if let Some(item) = item(record.source, plan) {
            add(why, &item, record.span, units);
        }
    }
    for gap in gaps {
        let rates = piece::rates(gap.source, &gap.last_known);
        let units = rates.iter().find(|(meter, _)| Some(*meter) == sold(gap.source));
        if let (Some(item), Some((_, units))) = (item(gap.source, gap.plan.as_ref()), units) {
            add(Unsold::Gap, &item, gap.span, *units);
        }
    }
    sums
}

/// The meter that plans sell the objects of a source by.
const fn sold(source: Source) -> Option<Meter> {
    match source {
        Source::Pods => Some(Meter::PodSeconds),
        Source::Claims => Some(Meter::DiskGibSeconds),
        Source::Nodes | Source::Traffic => None,
    }
}

fn item(source: Source, plan: Option<&Name>) -> Option<PriceItem> {
    sold(source).zip(plan).map(|(meter, plan)| PriceItem::of(meter, Some(plan)))
}

fn per_second(record: &UsageRecord, meter: Meter) -> Option<u64> {
    match record.quantities.get(&meter)? {
        Quantity::PerSecond(units) => Some(*units),
        Quantity::Total(_) => None,
    }
}

impl ListPrices<'_> {
    /// The cheapest plan that is at least as large as a pod.
    fn fitting(&self, record: &UsageRecord) -> Option<&Plan> {
        let used = |meter| per_second(record, meter).unwrap_or(0);
        let fits = |plan: &&Plan| {
            let size = &plan.resources;
            u64::from(size.cpu_millis) >= used(Meter::CpuMilliSeconds)
                && u64::from(size.memory_mib) >= used(Meter::MemoryMibSeconds)
                && u64::from(size.gpus) >= used(Meter::GpuSeconds)
        };
        let offered = self.plans.iter().filter(|plan| !plan.retired);
        offered.filter(fits).min_by_key(|plan| (plan.hourly.micros, &plan.name))
    }

    /// What units in every second of a span cost, by currency.
    fn cost(&self, item: &PriceItem, span: Span, units: u64) -> Vec<(Currency, i64)> {
        let listed = self.versions.iter().filter(|it| it.org.is_none() && it.item == *item);
        let part = |version: &PriceVersion| {
            let from = version.from.max(span.from);
            let until = version.until.map_or(span.until, |until| until.min(span.until));
            let seconds = i128::from(Span::new(from, until)?.micros());
            let quantity = i128::from(units).checked_mul(seconds)?;
            let cost = list_cost(&version.scheme, quantity).ok()?.round_to(1).ok()?;
            Some((version.currency, cost))
        };
        listed.filter_map(part).collect()
    }
}
