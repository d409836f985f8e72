//! What of a report is worth telling.

use trueup_model::observation::Absent;
use trueup_model::order::Order;
use trueup_model::report::{Outcome, Report};

/// What is known after a pass that panicked: nothing new.
pub(super) fn broken(order: &Order) -> Report {
    let why = "a defect in Trueup ended the work on it; what runs is left as it is, and operators see it \
               with `trueup wakes --state dead`";
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

/// Whether the cluster does not let us near a part of it.
pub(super) fn is_refused(report: &Report) -> bool {
    let missing = report.observation.iter().flat_map(|seen| &seen.missing);
    missing.into_iter().any(|part| part.why == Absent::Forbidden)
}

/// Whether a report says something that the last one did not.
pub(super) fn is_news(last: &Report, report: &Report) -> bool {
    let same_sight = match (&last.observation, &report.observation) {
        (Some(last), Some(now)) => last.same_as(now),
        (_, None) => true,
        (None, Some(_)) => false,
    };
    !(report.changes.is_empty()
        && report.receipt.is_none()
        && report.survey.is_none()
        && same_sight
        && last.outcome == report.outcome
        && last.generation == report.generation)
}
