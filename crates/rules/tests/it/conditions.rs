//! Conditions and evidence of a status, and that the projection is deterministic.

use serde_json::json;
use trueup_model::key::Kind;
use trueup_model::observation::{
    Absent, Admission, Cause, Missing, PodProblem, PodSeen, ReportedProblem, RouteSeen,
    WorkloadSeen,
};
use trueup_model::report::Outcome;
use trueup_model::service::DesiredState;
use trueup_model::status::Phase::{Accepted, Creating, Running, Updating};
use trueup_model::status::{Health, Inputs, Reason, Reconciliation};
use trueup_rules::status::{project, reconciliation};

use crate::given::at;
use crate::projection::{
    Twist, inputs, newer, nothing_seen, pods, seen, stuck, troubled, unreachable, waiting,
};

/// One of two pods is ready, and the other one has this problem.
fn failing(inputs: &mut Inputs, cause: Cause, detail: &str) {
    seen(inputs, pods(1, 2));
    inputs.observation.pods.push(troubled(cause, detail));
}

/// A gateway does not route a host of the service.
fn refuse_host(inputs: &mut Inputs) {
    let mut route = inputs.observation.objects[0].clone();
    route.key.kind = Kind::HttpRoute;
    let (reason, message) = ("NotAllowedByListeners".to_owned(), "no listener".to_owned());
    let admission = Admission::Refused(ReportedProblem { reason, message });
    route.route = Some(RouteSeen { host: "www.example.org".to_owned(), admission });
    inputs.observation.objects.push(route);
}

#[test]
fn a_refused_host_is_a_divergence_of_a_service_that_runs() {
    let mut given = inputs(Running);
    refuse_host(&mut given);
    let status = project(&given, at(9));
    assert_eq!((status.phase, status.health), (Running, Health::Healthy));
    assert_eq!(reconciliation(&status, 1, false), Reconciliation::Diverged);
    // A route that is being deleted refuses nothing any more.
    given.observation.objects[1].terminating = true;
    assert_eq!(project(&given, at(9)).conditions, []);
}

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
    let (reason, text) = one(refuse_host);
    assert_eq!(reason, Reason::HostRefused);
    assert!(text.starts_with("www.example.org: "), "{text}");
    assert!(text.contains("NotAllowedByListeners: no listener; ask the operator"), "{text}");
    let pods_not_ready: [(Twist, &str); 5] = [
        (|i| seen(i, pods(1, 2)), "1 of 2 pods are ready"),
        (|i| seen(i, WorkloadSeen { existing: 3, ..pods(2, 2) }), "still being replaced"),
        (|i| seen(i, WorkloadSeen { existing: 1, ..pods(0, 0) }), "still stopping"),
        (|i| seen(i, WorkloadSeen { current: false, ..pods(2, 2) }), "not observed"),
        (
            |i| failing(i, Cause::ImagePull, "no such tag"),
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
        failing(&mut given, cause, "");
        let text = project(&given, at(9)).conditions.remove(0).message;
        assert_eq!(text, format!("pod web-0: no detail given; {}", cause.advice()));
    }
    let both = conditions(|i| {
        i.outcome = waiting();
        failing(i, Cause::ImagePull, "");
    });
    let reasons: Vec<Reason> = both.iter().map(|condition| condition.reason).collect();
    assert_eq!(reasons, [Reason::Waiting, Reason::PodsNotReady], "in one order");
}

/// After a rollback or a fixed crash loop, pods of the earlier generation still stop.
#[test]
fn a_recovered_service_does_not_quote_the_pods_that_it_replaced() {
    let causes = [Cause::ImageMissing, Cause::CrashLoop, Cause::OutOfMemory, Cause::NodeLost];
    for cause in causes {
        let mut given = inputs(Updating);
        let ready =
            PodSeen { name: "web-1".to_owned(), ready: true, problem: None, ..troubled(cause, "") };
        given.observation.pods = vec![troubled(cause, "the old error"), ready];
        let status = project(&given, at(9));
        assert_eq!((status.phase, status.health), (Running, Health::Healthy), "{cause:?}");
        assert_eq!(status.conditions, [], "{cause:?}");
        assert_eq!(reconciliation(&status, 1, false), Reconciliation::Settled);

        // While a pod of this generation is missing, the problem explains it.
        seen(&mut given, pods(1, 2));
        let condition = project(&given, at(9)).conditions.remove(0);
        assert!(condition.message.contains("the old error"), "{}", condition.message);
    }
    // A report of the workload itself is of the past, too.
    let late = PodProblem { cause: Cause::SlowStart, detail: "it timed out".to_owned() };
    let mut given = inputs(Updating);
    seen(&mut given, WorkloadSeen { stuck: Some(late), ..pods(2, 2) });
    assert_eq!(project(&given, at(9)).conditions, []);
}

#[test]
fn an_eviction_is_named_until_the_pod_is_gone() {
    let mut given = inputs(Running);
    given.observation.pods.push(troubled(Cause::Evicted, "its node is being drained"));
    let status = project(&given, at(9));
    assert_eq!(status.health, Health::Healthy);
    let cause = status.conditions[0].cause.as_ref().map(|seen| seen.cause);
    assert_eq!(cause, Some(Cause::Evicted));
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
