//! Conditions and evidence of a status, and that the projection is deterministic.

use serde_json::json;
use trueup_model::key::Kind;
use trueup_model::observation::{Absent, Cause, Missing, WorkloadSeen};
use trueup_model::report::Outcome;
use trueup_model::service::DesiredState;
use trueup_model::status::Phase::{Accepted, Creating, Running, Updating};
use trueup_model::status::{Inputs, Reason};
use trueup_rules::status::project;

use crate::given::at;
use crate::projection::{
    Twist, inputs, newer, nothing_seen, pods, seen, stuck, troubled, unreachable, waiting,
};

#[test]
fn each_condition_has_a_reason_and_an_advice() {
    let conditions = |twist: Twist| {
        let mut given = inputs(Creating);
        twist(&mut given);
        project(&given, at(9)).conditions
    };
    let one = |twist: Twist| {
        let found = conditions(twist);
        assert_eq!(found.len(), 1, "{found:?}");
        (found[0].reason, found[0].message.clone())
    };
    assert_eq!(conditions(|_| {}), []);
    assert_eq!(one(|i| i.outcome = waiting()).1, "waiting for something");
    assert_eq!(one(|i| i.outcome = unreachable()).0, Reason::ClusterUnreachable);
    assert_eq!(one(|i| i.outcome = stuck()).0, Reason::Blocked);
    assert_eq!(
        one(|i| i.outcome = Outcome::Failed { why: "no".to_owned() }),
        (Reason::ClusterError, "no".to_owned())
    );
    let (reason, text) = one(|i| {
        i.observation.missing = vec![Missing { kind: Kind::HttpRoute, why: Absent::Unserved }];
    });
    assert_eq!(reason, Reason::PartMissing);
    assert!(text.ends_with("ask the operator to install the Gateway API"), "{text}");
    let pods_not_ready: [(Twist, &str); 5] = [
        (|i| seen(i, pods(1, 2)), "1 of 2 pods are ready"),
        (|i| seen(i, WorkloadSeen { existing: 3, ..pods(2, 2) }), "still being replaced"),
        (|i| seen(i, WorkloadSeen { existing: 1, ..pods(0, 0) }), "still stopping"),
        (|i| seen(i, WorkloadSeen { current: false, ..pods(2, 2) }), "not observed"),
        (
            |i| i.observation.pods.push(troubled(Cause::ImagePull, "no such tag")),
            "pod web-0: no such tag; check the image's name and tag",
        ),
    ];
    for (twist, message) in pods_not_ready {
        let (reason, text) = one(twist);
        assert_eq!(reason, Reason::PodsNotReady);
        assert!(text.contains(message), "{text}");
    }
    for cause in [
        Cause::ImagePull,
        Cause::CrashLoop,
        Cause::Unschedulable,
        Cause::VolumePending,
        Cause::ContainerConfig,
    ] {
        let mut given = inputs(Creating);
        given.observation.pods.push(troubled(cause, ""));
        let text = project(&given, at(9)).conditions.remove(0).message;
        assert_eq!(text, format!("pod web-0: no detail given; {}", cause.advice()));
    }
    let both = conditions(|i| {
        i.outcome = waiting();
        i.observation.pods.push(troubled(Cause::ImagePull, ""));
    });
    let reasons: Vec<Reason> = both.iter().map(|condition| condition.reason).collect();
    assert_eq!(reasons, [Reason::Waiting, Reason::PodsNotReady], "in one order");
}

#[test]
fn without_an_observation_there_is_no_evidence() {
    let mut given = inputs(Accepted);
    nothing_seen(&mut given);
    given.observation.generation = 0;
    given.outcome = unreachable();
    let status = project(&given, at(9));
    assert_eq!((status.evidence, status.applied_generation), (None, None));
}

#[test]
fn the_applied_generation_never_decreases() {
    let mut given = inputs(Running);
    newer(&mut given);
    assert_eq!(project(&given, at(9)).applied_generation, Some(1));
    given.observation.applied = true;
    assert_eq!(project(&given, at(9)).applied_generation, Some(2));
}

#[test]
fn the_same_inputs_give_the_same_bytes_also_after_being_stored() {
    let outcomes = [Outcome::Converged, waiting(), unreachable(), stuck()];
    let states = [DesiredState::Active, DesiredState::Paused, DesiredState::Deleted];
    for (outcome, desired) in outcomes.into_iter().flat_map(|o| states.map(|d| (o.clone(), d))) {
        let mut given = inputs(Updating);
        given.desired = desired;
        given.outcome = outcome;
        given.observation.pods.push(troubled(Cause::CrashLoop, "é \" \n"));
        let bytes = |inputs: &Inputs| serde_json::to_vec(&project(inputs, at(9))).unwrap();
        let stored = serde_json::to_string(&given).unwrap();
        let again: Inputs = serde_json::from_str(&stored).unwrap();
        assert_eq!(again, given);
        assert_eq!(bytes(&given), bytes(&given));
        assert_eq!(bytes(&again), bytes(&given));
        // JSONB does not keep the order of keys.
        let reordered: Inputs = serde_json::from_value(json!(given)).unwrap();
        assert_eq!(bytes(&reordered), bytes(&given));
    }
}
