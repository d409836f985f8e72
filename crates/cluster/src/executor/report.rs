//! Helpers on reports: whether one says anything new, and the report of a pass that panicked.

use trueup_model::observation::Absent;
use trueup_model::order::Order;
use trueup_model::report::{Outcome, Report};

/// The report of a pass that panicked; it has no observation.
pub(super) fn panic_report(order: &Order) -> Report {
    let why = "reconciliation stopped because of a bug in Trueup; what runs is left as it is; \
               operators find details with `trueup wakes --state dead`";
    Report {
        unit: order.unit,
        org: order.org,
        generation: order.generation,
        observation: None,
        outcome: Outcome::Broken { why: why.to_owned() },
        changes: Vec::new(),
        receipt: None,
        survey: None,
    }
}

/// Whether the cluster denies us access to a part of the unit.
pub(super) fn is_forbidden(report: &Report) -> bool {
    let missing = report.observation.iter().flat_map(|seen| &seen.missing);
    missing.into_iter().any(|part| part.why == Absent::Forbidden)
}

/// Whether a report says something that the last one did not.
pub(super) fn is_new(last: &Report, report: &Report) -> bool {
    let same_observation = match (&last.observation, &report.observation) {
        (Some(last), Some(now)) => last.same_as(now),
        (_, None) => true,
        (None, Some(_)) => false,
    };
    !(report.changes.is_empty()
        && report.receipt.is_none()
        && report.survey.is_none()
        && same_observation
        && last.outcome == report.outcome
        && last.generation == report.generation)
}
