//! Why it is not there yet, what that rests on, and that the same inputs always say the same.

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
    Twist, away, inputs, newer, nothing_seen, pods, seen, stuck, troubled, waiting,
};

#[test]
fn each_condition_says_what_it_is_and_what_to_do() {
    let conditions = |twist: Twist| {
        let mut given = inputs(Creating);
        twist(&mut given);
        project(&given, at(9)).conditions
    };
    let one = |twist: Twist| {
        let told = conditions(twist);
        assert_eq!(told.len(), 1, "{told:?}");
        (told[0].reason, told[0].message.clone())
    };
    assert_eq!(conditions(|_| {}), []);
    assert_eq!(one(|i| i.outcome = waiting()).1, "waiting for something");
    assert_eq!(one(|i| i.outcome = away()).0, Reason::ClusterUnreachable);
    assert_eq!(one(|i| i.outcome = stuck()).0, Reason::Blocked);
    assert_eq!(
        one(|i| i.outcome = Outcome::Failed { why: "no".to_owned() }),
        (Reason::ClusterError, "no".to_owned())
    );
    let (reason, told) = one(|i| {
        i.observation.missing = vec![Missing { kind: Kind::HttpRoute, why: Absent::Unserved }];
    });
    assert_eq!(reason, Reason::PartMissing);
    assert!(told.ends_with("ask the operator to install the Gateway API"), "{told}");
    let pods_not_ready: [(Twist, &str); 5] = [
        (|i| seen(i, pods(1, 2)), "1 of 2 pods are ready"),
        (|i| seen(i, WorkloadSeen { existing: 3, ..pods(2, 2) }), "still being replaced"),
        (|i| seen(i, WorkloadSeen { existing: 1, ..pods(0, 0) }), "still stopping"),
        (|i| seen(i, WorkloadSeen { current: false, ..pods(2, 2) }), "not taken up"),
        (
            |i| i.observation.pods.push(troubled(Cause::ImagePull, "no such tag")),
            "pod web-0: no such tag; check the image's name and tag",
        ),
    ];
    for (twist, message) in pods_not_ready {
        let (reason, told) = one(twist);
        assert_eq!(reason, Reason::PodsNotReady);
        assert!(told.contains(message), "{told}");
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
        let told = project(&given, at(9)).conditions.remove(0).message;
        assert_eq!(told, format!("pod web-0: no detail given; {}", cause.advice()));
    }
    let both = conditions(|i| {
        i.outcome = waiting();
        i.observation.pods.push(troubled(Cause::ImagePull, ""));
    });
    let reasons: Vec<Reason> = both.iter().map(|condition| condition.reason).collect();
    assert_eq!(reasons, [Reason::Waiting, Reason::PodsNotReady], "in one order");
}

#[test]
fn before_anything_was_seen_there_is_no_evidence() {
    let mut given = inputs(Accepted);
    nothing_seen(&mut given);
    given.observation.generation = 0;
    given.outcome = away();
    let status = project(&given, at(9));
    assert_eq!((status.evidence, status.applied_generation), (None, None));
}

#[test]
fn the_applied_generation_never_goes_back_by_a_bad_pass() {
    let mut given = inputs(Running);
    newer(&mut given);
    assert_eq!(project(&given, at(9)).applied_generation, Some(1));
    given.observation.applied = true;
    assert_eq!(project(&given, at(9)).applied_generation, Some(2));
}

#[test]
fn the_same_inputs_give_the_same_bytes_also_after_being_stored() {
    let outcomes = [Outcome::Converged, waiting(), away(), stuck()];
    let wishes = [DesiredState::Active, DesiredState::Paused, DesiredState::Deleted];
    for (outcome, desired) in outcomes.into_iter().flat_map(|o| wishes.map(|d| (o.clone(), d))) {
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
        // JSONB keeps no order of keys; neither does this.
        let reordered: Inputs = serde_json::from_value(json!(given)).unwrap();
        assert_eq!(bytes(&reordered), bytes(&given));
    }
}
