//! Reconciliation states, and the effect of stale evidence.

use trueup_model::key::Kind;
use trueup_model::report::Outcome;
use trueup_model::status::{Condition, Health, Phase, Reason, Reconciliation, Status};
use trueup_rules::status::{aged, project, reconciliation};

use crate::given::at;
use crate::projection::{inputs, pods};

fn status(phase: Phase) -> Status {
    let status = project(&inputs(Phase::Creating), at(9));
    Status { phase, ..status }
}

fn with_condition(reason: Reason) -> Status {
    let condition = Condition { reason, message: "why".to_owned(), cause: None };
    Status { conditions: vec![condition], ..status(Phase::Running) }
}

#[test]
fn each_phase_has_its_reconciliation_state() {
    use Reconciliation::{Diverged, Pending, Settled};
    let table = [
        (Phase::Accepted, Pending),
        (Phase::Creating, Pending),
        (Phase::Updating, Pending),
        (Phase::Deleting, Pending),
        (Phase::Running, Settled),
        (Phase::Paused, Settled),
        (Phase::Blocked, Diverged),
        (Phase::Deleted, Settled),
    ];
    for (phase, expected) in table {
        assert_eq!(reconciliation(&status(phase), 1, false), expected, "{phase:?}");
    }
}

#[test]
fn a_newer_generation_or_stale_evidence_is_pending() {
    for phase in [Phase::Running, Phase::Paused] {
        assert_eq!(reconciliation(&status(phase), 2, false), Reconciliation::Pending);
        assert_eq!(reconciliation(&status(phase), 1, true), Reconciliation::Pending);
    }
    let gone = status(Phase::Deleted);
    assert_eq!(reconciliation(&gone, 1, true), Reconciliation::Settled, "absence is final");
}

#[test]
fn a_difference_is_divergence_only_if_observed() {
    let table = [
        (Reason::PodsNotReady, Reconciliation::Diverged),
        (Reason::Waiting, Reconciliation::Diverged),
        (Reason::ClusterError, Reconciliation::Diverged),
        (Reason::ExternallyModified, Reconciliation::Diverged),
        (Reason::InConflict, Reconciliation::Diverged),
        (Reason::AdoptionProposed, Reconciliation::Diverged),
        (Reason::ClusterUnreachable, Reconciliation::Pending),
    ];
    for (reason, expected) in table {
        assert_eq!(reconciliation(&with_condition(reason), 1, false), expected, "{reason:?}");
    }
}

#[test]
fn fresh_evidence_is_shown_unchanged() {
    let fresh = status(Phase::Running);
    assert_eq!(aged(fresh.clone(), &[]), (fresh, None));
}

#[test]
fn stale_evidence_is_unknown_with_the_last_known_health() {
    let mut failing = inputs(Phase::Creating);
    failing.observation.workload = Some(pods(1, 2));
    for (old, last) in
        [(status(Phase::Running), Health::Healthy), (project(&failing, at(9)), Health::Progressing)]
    {
        let (shown, last_known) = aged(old.clone(), &[Kind::Pod]);
        assert_eq!(shown.health, Health::Unknown);
        assert_eq!(last_known, Some(last));
        assert_eq!(
            (shown.phase, shown.since, shown.evidence),
            (old.phase, old.since, old.evidence)
        );
        assert_eq!(shown.conditions.last().map(|c| c.reason), Some(Reason::Stale));
    }
}

#[test]
fn stale_evidence_without_a_last_health_stays_unknown() {
    let mut deferred = inputs(Phase::Running);
    deferred.outcome = Outcome::Deferred { why: "away".to_owned() };
    let (shown, last_known) = aged(project(&deferred, at(9)), &[Kind::Pod]);
    assert_eq!(
        (shown.health, last_known),
        (Health::Unknown, None),
        "Unknown is no last known value"
    );

    let never_seen = Status::accepted(at(0));
    assert_eq!(aged(never_seen.clone(), &[Kind::Pod]), (never_seen, None));

    let gone = status(Phase::Deleted);
    assert_eq!(aged(gone.clone(), &[Kind::Pod]), (gone, None), "verified absence is final");
}
