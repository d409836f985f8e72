//! How workloads report pods that a quota refuses.

use serde_json::{Value, json};
use trueup_model::key::Kind;

use super::place::{labelled, text};
use super::workloads::{condition, deployment, workload};
use super::{Check, Place};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("deployment_over_quota_reports_replica_failure", |at| {
        Box::pin(deployment_over_quota_reports_replica_failure(at))
    }),
    ("stateful_set_over_quota_emits_warning_event", |at| {
        Box::pin(stateful_set_over_quota_emits_warning_event(at))
    }),
];

const QUOTA_ERROR: &str = "exceeded quota: tight";

/// Creates a quota that allows no pods.
async fn allow_no_pods(at: &Place) {
    let key = at.key(Kind::ResourceQuota, "tight");
    let mut quota = labelled(&key);
    quota["spec"] = json!({ "hard": { "pods": "0" } });
    at.apply(&key, &quota).await;
}

fn names_quota(text: &Value) -> bool {
    text.as_str().is_some_and(|text| text.contains(QUOTA_ERROR))
}

async fn deployment_over_quota_reports_replica_failure(at: &Place) {
    allow_no_pods(at).await;
    let (key, object) = deployment(at, "web", 3);
    at.apply(&key, &object).await;
    at.until(&key, "marked with ReplicaFailure", |object| {
        condition(object, "ReplicaFailure").is_some_and(|condition| {
            condition["status"] == "True" && names_quota(&condition["message"])
        })
    })
    .await;
}

async fn stateful_set_over_quota_emits_warning_event(at: &Place) {
    allow_no_pods(at).await;
    let key = at.key(Kind::StatefulSet, "web");
    let mut object = labelled(&key);
    object["spec"] = workload("web", 3);
    object["spec"]["serviceName"] = "web".into();
    let set = at.apply(&key, &object).await;
    let uid = text(&set, "uid");
    let warned = async {
        loop {
            let events = at.cluster.warnings(&key, &uid).await.expect("should be listed");
            if let Some(event) = events.into_iter().find(|event| names_quota(&event["message"])) {
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
    assert_eq!(none, Vec::<Value>::new(), "another uid has no warnings");
}
