//! Pods that a quota refuses: who says so, and to whom.

use serde_json::{Value, json};
use trueup_model::key::Kind;

use super::place::{labelled, text};
use super::workloads::{condition, deployment, workload};
use super::{Check, Place};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("a_deployment_shows_that_its_pods_are_refused", |at| {
        Box::pin(a_deployment_shows_that_its_pods_are_refused(at))
    }),
    ("a_set_warns_that_its_pods_are_refused", |at| {
        Box::pin(a_set_warns_that_its_pods_are_refused(at))
    }),
];

const WORDS: &str = "exceeded quota: tight";

/// From now on no pod is let in.
async fn let_no_pod_in(at: &Place) {
    let key = at.key(Kind::ResourceQuota, "tight");
    let mut quota = labelled(&key);
    quota["spec"] = json!({ "hard": { "pods": "0" } });
    at.apply(&key, &quota).await;
}

fn says(text: &Value) -> bool {
    text.as_str().is_some_and(|text| text.contains(WORDS))
}

async fn a_deployment_shows_that_its_pods_are_refused(at: &Place) {
    let_no_pod_in(at).await;
    let (key, object) = deployment(at, "web", 3);
    at.apply(&key, &object).await;
    at.until(&key, "refused its pods", |object| {
        condition(object, "ReplicaFailure")
            .is_some_and(|told| told["status"] == "True" && says(&told["message"]))
    })
    .await;
}

async fn a_set_warns_that_its_pods_are_refused(at: &Place) {
    let_no_pod_in(at).await;
    let key = at.key(Kind::StatefulSet, "web");
    let mut object = labelled(&key);
    object["spec"] = workload("web", 3);
    object["spec"]["serviceName"] = "web".into();
    let set = at.apply(&key, &object).await;
    let uid = text(&set, "uid");
    let warned = async {
        loop {
            let events = at.cluster.warnings(&key, &uid).await.expect("should be listed");
            if let Some(event) = events.into_iter().find(|event| says(&event["message"])) {
                return event;
            }
            at.pause().await;
        }
    };
    let event = at.in_time("a warning", warned).await;
    assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!("FailedCreate")));
    assert_eq!(event["involvedObject"]["uid"], uid.as_str());
    let other = "00000000-0000-0000-0000-000000000000";
    let none = at.cluster.warnings(&key, other).await.expect("should be listed");
    assert_eq!(none, Vec::<Value>::new(), "another incarnation has none");
}
