//! Records: the intervals of one object over one span, for all of its meters, as they are stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::UsageInterval;
use super::{Basis, Delivery, Flags, Meter, Owner, Provenance, Quantity, Source, Span};
use crate::name::Name;

/// What one object used during one span, with one configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "three independent facts, as columns of a row")]
pub struct UsageRecord {
    /// Whose it is.
    pub owner: Owner,
    /// The uid of the object.
    pub object: String,
    /// Where it was observed.
    pub source: Source,
    /// The plan in force, if the service has one.
    pub plan: Option<Name>,
    /// How much, by meter.
    pub quantities: BTreeMap<Meter, Quantity>,
    /// When.
    pub span: Span,
    /// Whether later evidence may still change it.
    pub open: bool,
    /// Whether every contact with its sources extends it.
    pub growing: bool,
    /// Whether it was delivered.
    pub delivery: Delivery,
    /// What the quantities are based on.
    pub basis: Basis,
    /// Whether it ran on a simulated node.
    pub simulated: bool,
    /// The observations it is derived from.
    pub provenance: Provenance,
    /// What is unusual about them.
    pub flags: Flags,
}

impl UsageRecord {
    /// The records of these intervals.
    #[must_use]
    pub fn of(intervals: &[UsageInterval]) -> Vec<Self> {
        let mut records: BTreeMap<_, Self> = BTreeMap::new();
        for interval in intervals {
            let source = interval.meter.source();
            let key = (&interval.object, source, interval.span, interval.basis);
            let record = records.entry(key).or_insert_with(|| Self::without_quantity(interval));
            record.quantities.insert(interval.meter, interval.quantity);
        }
        records.into_values().collect()
    }

    fn without_quantity(interval: &UsageInterval) -> Self {
        Self {
            owner: interval.owner,
            object: interval.object.clone(),
            source: interval.meter.source(),
            plan: interval.plan.clone(),
            quantities: BTreeMap::new(),
            span: interval.span,
            open: interval.open,
            growing: interval.growing,
            delivery: interval.delivery,
            basis: interval.basis,
            simulated: interval.simulated,
            provenance: interval.provenance.clone(),
            flags: interval.flags,
        }
    }

    /// Its intervals, one for each meter.
    pub fn intervals(&self) -> impl Iterator<Item = UsageInterval> {
        self.quantities.iter().map(|(meter, quantity)| UsageInterval {
            owner: self.owner,
            object: self.object.clone(),
            meter: *meter,
            plan: self.plan.clone(),
            quantity: *quantity,
            span: self.span,
            open: self.open,
            growing: self.growing,
            delivery: self.delivery,
            basis: self.basis,
            simulated: self.simulated,
            provenance: self.provenance.clone(),
            flags: self.flags,
        })
    }
}
