//! Where the capacity of a cluster went: nothing is used that is not accounted for.

use trueup_model::usage::{Basis, Delivery, Gap, Meter, Span, UsageInterval};

use super::{Nodes, piece};

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

impl Balance {
    /// What was not used. A negative amount means that more was metered than existed, which is a
    /// billing incident.
    #[must_use]
    pub const fn idle(&self) -> i128 {
        self.capacity
            .saturating_sub(self.delivered)
            .saturating_sub(self.under_delivered)
            .saturating_sub(self.orphan)
            .saturating_sub(self.gap)
    }
}

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
