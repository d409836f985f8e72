//! Gaps: an object ended while it was not observed.
//!
//! A gap in a watch is no gap in usage if the object is observed again: its uid and the timestamps
//! of its containers prove that it existed all the time. Only an end that was not observed leaves
//! one. It becomes a row, and its policy decides what it costs.

use jiff::Timestamp;
use trueup_model::usage::{
    Basis, Delivery, Flags, Gap, GapPolicy, Provenance, Quantity, Span, UsageInterval,
};

use super::fold::Life;
use super::{Observed, piece};

/// The gap at the end of a life, if there is one.
pub(super) fn row(life: &Life, observed: &Observed<'_>) -> Option<Gap> {
    let span = life.gap?;
    let state = piece::state(life, observed, span.from);
    Some(Gap {
        owner: observed.owner,
        object: life.object.clone(),
        source: life.source,
        span,
        policy: observed.policy,
        plan: state.plan,
        last_known: state.size,
        delivery: state.delivery,
        simulated: state.simulated,
        evidence: life.until.evidence.clone(),
    })
}

/// The intervals that the policy of a gap charges.
pub(super) fn fill(gap: &Gap) -> Vec<UsageInterval> {
    let charged = match gap.policy {
        GapPolicy::Free => None,
        GapPolicy::LastKnown => Some((gap.span, Basis::LastKnown)),
        // The end is as likely before the middle as after it.
        GapPolicy::Estimate => Span::new(gap.span.from, middle(gap.span))
            .map(|first_half| (first_half, Basis::Estimated)),
    };
    let Some((span, basis)) = charged.filter(|_| gap.delivery == Delivery::Delivered) else {
        return Vec::new();
    };
    let interval = |(meter, units)| UsageInterval {
        owner: gap.owner,
        object: gap.object.clone(),
        meter,
        plan: gap.plan.clone(),
        quantity: Quantity::PerSecond(units),
        span,
        open: false,
        growing: false,
        delivery: gap.delivery,
        basis,
        simulated: gap.simulated,
        provenance: Provenance { first: gap.evidence.clone(), last: gap.evidence.clone() },
        flags: Flags::default(),
    };
    piece::rates(gap.source, &gap.last_known).into_iter().map(interval).collect()
}

fn middle(span: Span) -> Timestamp {
    let half = span.from.as_microsecond().saturating_add(span.micros() / 2);
    Timestamp::from_microsecond(half).unwrap_or(span.from)
}
