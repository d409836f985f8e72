//! The projected status for each kind of evidence.

use serde_json::json;
use trueup_model::drift::{Divergence, DivergenceClass, DivergenceState};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::{Cause, Observation, PodProblem, PodSeen, Sighting, WorkloadSeen};
use trueup_model::report::Outcome;
use trueup_model::service::DesiredState::{Active, Deleted as Gone, Paused as Resting};
use trueup_model::status::Health::{Degraded, Error, Healthy, Progressing, Unknown};
use trueup_model::status::Phase::{
    Accepted, Blocked, Creating, Deleted, Deleting, Paused, Running, Updating,
};
use trueup_model::status::{Health, Inputs, Phase, Reason, Reconciliation, Status};
use trueup_rules::status::{project, reconciliation};

use crate::drift_price::divergence;
use crate::given::{at, cluster};

/// Inputs of a service of two pods, in its first generation.
pub(crate) fn inputs(previous: Phase) -> Inputs {
    Inputs {
        desired: Active,
        generation: 1,
        cluster: cluster(),
        previous: Status { phase: previous, ..Status::accepted(at(0)) },
        observation: Observation {
            generation: 1,
            applied: true,
            objects: vec![Sighting {
                key: ResourceKey::new(Kind::Deployment, "shop", "web"),
                uid: "uid-5".to_owned(),
                resource_version: "9".to_owned(),
                terminating: false,
                bound: None,
                route: None,
                certificate: None,
            }],
            workload: Some(pods(2, 2)),
            pods: Vec::new(),
            missing: Vec::new(),
            divergences: Vec::new(),
            as_of: at(5),
        },
        outcome: Outcome::Converged,
        absent: false,
    }
}

/// A workload with so many ready pods, all of the newest revision.
pub(crate) fn pods(ready: u32, wanted: u32) -> WorkloadSeen {
    WorkloadSeen {
        wanted,
        existing: wanted,
        updated: wanted,
        ready,
        current: true,
        ..WorkloadSeen::default()
    }
}

pub(crate) fn troubled(cause: Cause, detail: &str) -> PodSeen {
    PodSeen {
        name: "web-0".to_owned(),
        uid: "u".to_owned(),
        ready: false,
        ended: None,
        problem: Some(PodProblem { cause, detail: detail.to_owned() }),
        simulated: false,
    }
}

pub(crate) fn waiting() -> Outcome {
    Outcome::Waiting { on: "something".to_owned() }
}

pub(crate) fn unreachable() -> Outcome {
    Outcome::Deferred { why: "the cluster does not answer".to_owned() }
}

pub(crate) fn stuck() -> Outcome {
    Outcome::Blocked { why: "something is in the way".to_owned() }
}

/// Changes the inputs of a service whose two pods are ready.
pub(crate) type Twist = fn(&mut Inputs);

pub(crate) fn check(table: &[(&str, Phase, Twist, Phase, Health)]) {
    for (what, previous, twist, phase, health) in table {
        let mut given = inputs(*previous);
        twist(&mut given);
        let status = project(&given, at(9));
        assert_eq!((status.phase, status.health), (*phase, *health), "{what}");
        let since = if *phase == *previous { at(0) } else { at(9) };
        assert_eq!(status.since, since, "{what}: since");
    }
}

pub(crate) fn seen(inputs: &mut Inputs, workload: WorkloadSeen) {
    inputs.observation.workload = Some(workload);
}

pub(crate) fn nothing_seen(inputs: &mut Inputs) {
    inputs.observation.applied = false;
    inputs.observation.objects.clear();
    inputs.observation.workload = None;
}

/// A newer generation that is not applied yet.
pub(crate) fn newer(inputs: &mut Inputs) {
    inputs.generation = 2;
    inputs.observation.generation = 2;
    inputs.observation.applied = false;
    inputs.previous.applied_generation = Some(1);
    inputs.outcome = waiting();
}

#[test]
fn a_new_service_is_running_only_with_evidence() {
    check(&[
        ("nothing was done", Accepted, nothing_seen, Accepted, Unknown),
        ("written in part", Accepted, |i| i.observation.applied = false, Creating, Progressing),
        ("pods to come", Creating, |i| seen(i, pods(0, 2)), Creating, Progressing),
        ("one of two pods", Creating, |i| seen(i, pods(1, 2)), Creating, Progressing),
        ("all pods", Creating, |_| {}, Running, Healthy),
        ("all pods at once", Accepted, |_| {}, Running, Healthy),
        ("no pods wanted", Creating, |i| seen(i, pods(0, 0)), Running, Healthy),
        (
            "the workload is gone",
            Creating,
            |i| i.observation.workload = None,
            Creating,
            Progressing,
        ),
        (
            "an answer to an older spec",
            Creating,
            |i| {
                seen(i, WorkloadSeen { current: false, ..pods(2, 2) });
            },
            Creating,
            Progressing,
        ),
    ]);
}

#[test]
fn a_change_is_in_progress_until_the_new_pods_are_ready() {
    check(&[
        ("not written yet", Running, newer, Updating, Progressing),
        ("an older pass reports", Running, |i| i.generation = 2, Updating, Progressing),
        (
            "old pods are still there",
            Updating,
            |i| {
                seen(i, WorkloadSeen { existing: 3, ..pods(2, 2) });
            },
            Updating,
            Progressing,
        ),
        (
            "new pods are missing",
            Updating,
            |i| {
                seen(i, WorkloadSeen { updated: 1, ..pods(2, 2) });
            },
            Updating,
            Progressing,
        ),
        (
            "the new pods fail, the old serve",
            Updating,
            |i| {
                seen(i, WorkloadSeen { existing: 3, updated: 1, ..pods(2, 2) });
                i.observation.pods.push(troubled(Cause::ImagePull, ""));
            },
            Updating,
            Degraded,
        ),
        ("all is new", Updating, |_| {}, Running, Healthy),
    ]);
}

/// It ran in this generation.
pub(crate) fn ran(inputs: &mut Inputs) {
    inputs.previous.applied_generation = Some(1);
}

#[test]
fn health_follows_the_ready_pods() {
    check(&[
        (
            "one of two pods",
            Running,
            |i| {
                ran(i);
                seen(i, pods(1, 2));
            },
            Running,
            Degraded,
        ),
        (
            "no pod, no cause",
            Running,
            |i| {
                ran(i);
                seen(i, pods(0, 2));
            },
            Running,
            Progressing,
        ),
        (
            "no pod, and the cause",
            Running,
            |i| {
                ran(i);
                seen(i, pods(0, 2));
                i.observation.pods.push(troubled(Cause::CrashLoop, ""));
            },
            Running,
            Error,
        ),
        (
            "all pods, roll to come",
            Running,
            |i| {
                ran(i);
                seen(i, WorkloadSeen { current: false, ..pods(2, 2) });
            },
            Running,
            Progressing,
        ),
        (
            "everything was deleted",
            Running,
            |i| {
                ran(i);
                nothing_seen(i);
                i.outcome = waiting();
            },
            Running,
            Progressing,
        ),
        (
            "a write failed",
            Running,
            |i| {
                ran(i);
                i.observation.applied = false;
                i.outcome = Outcome::Failed { why: "admission said no".to_owned() };
            },
            Running,
            Healthy,
        ),
    ]);
}

#[test]
fn a_first_start_is_an_error_only_for_lasting_problems() {
    check(&[
        (
            "first pods fail",
            Creating,
            |i| {
                seen(i, pods(0, 2));
                i.observation.pods.push(troubled(Cause::Unschedulable, ""));
            },
            Creating,
            Error,
        ),
        (
            "its disk is still being made",
            Creating,
            |i| {
                seen(i, pods(0, 1));
                i.observation.pods.push(troubled(Cause::VolumePending, ""));
            },
            Creating,
            Progressing,
        ),
    ]);
}

#[test]
fn an_unreachable_cluster_is_unknown_and_never_an_error() {
    check(&[
        (
            "never seen",
            Accepted,
            |i| {
                nothing_seen(i);
                i.outcome = unreachable();
            },
            Accepted,
            Unknown,
        ),
        (
            "it ran",
            Running,
            |i| {
                ran(i);
                i.outcome = unreachable();
            },
            Running,
            Unknown,
        ),
        (
            "it was failing",
            Creating,
            |i| {
                seen(i, pods(0, 2));
                i.observation.pods.push(troubled(Cause::ImagePull, ""));
                i.outcome = unreachable();
            },
            Creating,
            Unknown,
        ),
        (
            "it was going",
            Deleting,
            |i| {
                i.desired = Gone;
                i.outcome = unreachable();
            },
            Deleting,
            Unknown,
        ),
    ]);
    let mut given = inputs(Running);
    given.outcome = unreachable();
    let evidence = project(&given, at(9)).evidence.unwrap();
    assert_eq!(evidence.observed_at, at(5), "the last evidence should be kept with its time");
    assert_eq!(evidence.uid.as_deref(), Some("uid-5"));
    assert_eq!(evidence.resource_version.as_deref(), Some("9"));
}

#[test]
fn a_blocked_service_with_ready_pods_is_degraded() {
    check(&[
        (
            "from the start",
            Accepted,
            |i| {
                nothing_seen(i);
                i.outcome = stuck();
            },
            Blocked,
            Error,
        ),
        (
            "a change",
            Running,
            |i| {
                newer(i);
                i.outcome = stuck();
            },
            Blocked,
            Degraded,
        ),
        (
            "still",
            Blocked,
            |i| {
                newer(i);
                i.outcome = stuck();
            },
            Blocked,
            Degraded,
        ),
        (
            "a delete",
            Deleting,
            |i| {
                i.desired = Gone;
                i.outcome = stuck();
            },
            Blocked,
            Degraded,
        ),
        ("freed, a change", Blocked, newer, Updating, Progressing),
        ("freed, the first time", Blocked, |i| seen(i, pods(0, 2)), Creating, Progressing),
        ("freed and all there", Blocked, |_| {}, Running, Healthy),
    ]);
}

fn resting(inputs: &mut Inputs) {
    inputs.desired = Resting;
    seen(inputs, pods(0, 0));
}

#[test]
fn paused_requires_that_nothing_runs() {
    check(&[
        (
            "not written yet",
            Running,
            |i| {
                newer(i);
                i.desired = Resting;
            },
            Updating,
            Progressing,
        ),
        (
            "pods still run",
            Updating,
            |i| {
                resting(i);
                seen(i, WorkloadSeen { existing: 2, ready: 2, ..pods(0, 0) });
            },
            Updating,
            Progressing,
        ),
        (
            "a pod is still stopping",
            Updating,
            |i| {
                resting(i);
                i.observation
                    .pods
                    .push(PodSeen { problem: None, ..troubled(Cause::CrashLoop, "") });
            },
            Updating,
            Progressing,
        ),
        ("nothing runs", Updating, resting, Paused, Healthy),
        ("it stays so", Paused, resting, Paused, Healthy),
        ("resumed", Paused, newer, Updating, Progressing),
    ]);
}

#[test]
fn deleted_requires_verified_absence() {
    check(&[
        (
            "on its way",
            Running,
            |i| {
                i.desired = Gone;
                i.outcome = waiting();
            },
            Deleting,
            Progressing,
        ),
        (
            "nothing seen, nothing proved",
            Deleting,
            |i| {
                i.desired = Gone;
                nothing_seen(i);
            },
            Deleting,
            Progressing,
        ),
        (
            "proved",
            Deleting,
            |i| {
                i.desired = Gone;
                nothing_seen(i);
                i.absent = true;
            },
            Deleted,
            Unknown,
        ),
    ]);
}

#[test]
fn a_project_is_running_when_its_namespace_exists() {
    fn project_seen(inputs: &mut Inputs) {
        inputs.observation.workload = None;
        inputs.observation.objects[0].key = ResourceKey::new(Kind::Namespace, "", "shop");
    }
    check(&[
        ("there", Accepted, project_seen, Running, Healthy),
        (
            "going",
            Running,
            |i| {
                project_seen(i);
                ran(i);
                i.observation.objects[0].terminating = true;
                i.outcome = waiting();
            },
            Running,
            Progressing,
        ),
    ]);
}

/// A change of the number of pods by another writer, in this state.
pub(crate) fn edited(state: DivergenceState) -> Divergence {
    Divergence { state, ..divergence(Kind::Deployment, "spec.replicas", json!(2), json!(5)) }
}

#[test]
fn each_standing_difference_has_a_condition_unless_it_is_ignored() {
    use DivergenceState::{Ignored, InConflict, Open, Proposed};
    let table = [
        (Ignored, None, Reconciliation::Settled),
        (
            Open,
            Some((
                Reason::ExternallyModified,
                "externally modified; will be reverted: kubectl-edit changed spec.replicas of \
                 Deployment/shop/web",
            )),
            Reconciliation::Diverged,
        ),
        (
            Proposed,
            Some((
                Reason::AdoptionProposed,
                "adoption proposed: kubectl-edit changed spec.replicas of Deployment/shop/web; the \
                 value stays until `trueup drift adopt` or `trueup drift reject` decides, or the \
                 proposal expires",
            )),
            Reconciliation::Diverged,
        ),
        (
            InConflict,
            Some((
                Reason::InConflict,
                "in conflict: Trueup and kubectl-edit keep changing spec.replicas of \
                 Deployment/shop/web; it is not enforced until `trueup conflicts settle` decides",
            )),
            Reconciliation::Diverged,
        ),
    ];
    for (state, expected, wanted) in table {
        let mut given = inputs(Running);
        ran(&mut given);
        given.observation.divergences = vec![edited(state)];
        let status = project(&given, at(9));
        assert_eq!((status.phase, status.health), (Running, Healthy), "{state}");
        let found = status.conditions.first().map(|one| (one.reason, one.message.as_str()));
        assert_eq!((status.conditions.len(), found), (usize::from(found.is_some()), expected));
        assert_eq!(reconciliation(&status, 1, false), wanted, "{state}");
    }
}

#[test]
fn a_condition_names_the_first_of_several_differences() {
    let mut given = inputs(Running);
    given.observation.divergences = ["spec.paused", "spec.replicas", "spec.strategy"]
        .map(|field| Divergence { field: field.to_owned(), ..edited(DivergenceState::Open) })
        .to_vec();
    let status = project(&given, at(9));
    let message = &status.conditions[0].message;
    assert!(message.contains("spec.paused of Deployment/shop/web (and 2 more)"), "{message}");

    let deleted = Divergence {
        field: String::new(),
        class: DivergenceClass::Deleted,
        by: None,
        ..edited(DivergenceState::Open)
    };
    given.observation.divergences = vec![deleted];
    let status = project(&given, at(9));
    let message = &status.conditions[0].message;
    assert!(message.contains("another writer deleted Deployment/shop/web"), "{message}");
}

#[test]
fn a_revert_is_promised_only_if_it_will_happen() {
    let why = || "why".to_owned();
    let table = [
        (Outcome::Converged, "will be reverted"),
        (Outcome::Failed { why: why() }, "will be reverted"),
        (Outcome::Refused { why: why() }, "will be reverted"),
        (Outcome::Frozen { why: why() }, "not reverted while frozen"),
        (Outcome::Blocked { why: why() }, "not reverted while blocked"),
        (Outcome::Locked { why: why() }, "not reverted while its secrets cannot be decrypted"),
    ];
    for (outcome, expected) in table {
        let mut given = inputs(Running);
        given.outcome = outcome;
        given.observation.divergences = vec![edited(DivergenceState::Open)];
        let status = project(&given, at(9));
        let condition =
            status.conditions.iter().find(|one| one.reason == Reason::ExternallyModified);
        let message = &condition.expect("a condition").message;
        assert!(message.contains(expected), "{message}");
    }
    let mut given = inputs(Deleting);
    given.desired = Gone;
    given.observation.divergences = vec![edited(DivergenceState::Open)];
    assert_eq!(project(&given, at(9)).conditions, [], "a deletion reverts nothing");
}
