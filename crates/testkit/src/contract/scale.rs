//! Replicas, disruption budgets and autoscalers; version and uid as preconditions of an apply.

use serde_json::{Value, json};
use trueup_cluster::CallError;
use trueup_model::key::{Kind, ResourceKey};

use super::place::{labelled, text};
use super::workloads::deployment;
use super::{Check, Place};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("apply_with_old_version_conflicts", |at| Box::pin(apply_with_old_version_conflicts(at))),
    ("apply_with_uid_does_not_recreate_deleted_object", |at| {
        Box::pin(apply_with_uid_does_not_recreate_deleted_object(at))
    }),
    ("apply_with_version_alone_recreates_deleted_object", |at| {
        Box::pin(apply_with_version_alone_recreates_deleted_object(at))
    }),
    ("annotation_increments_generation_of_deployment_only", |at| {
        Box::pin(annotation_increments_generation_of_deployment_only(at))
    }),
    ("apply_without_replicas_scales_to_one", |at| {
        Box::pin(apply_without_replicas_scales_to_one(at))
    }),
    ("disruption_budget_is_stored_as_written", |at| {
        Box::pin(disruption_budget_is_stored_as_written(at))
    }),
    ("autoscaler_is_stored_as_written", |at| Box::pin(autoscaler_is_stored_as_written(at))),
];

fn with_version(object: &Value, version: &str) -> Value {
    let mut object = object.clone();
    object["metadata"]["resourceVersion"] = version.into();
    object
}

async fn apply_with_old_version_conflicts(at: &Place) {
    let (key, object) = at.config("one", &json!({ "a": "1" }));
    let old = text(&at.apply(&key, &object).await, "resourceVersion");
    at.patch(&key, &json!({ "data": { "x": "foreign" } })).await;
    let (_, object) = at.config("one", &json!({ "a": "2" }));
    let outcome = at.cluster.apply(&key, &with_version(&object, &old)).await;
    assert!(matches!(outcome, Err(CallError::Conflict(_))), "{outcome:?}");
    let now = text(&at.get(&key).await.expect("should be there"), "resourceVersion");
    let stored = at.apply(&key, &with_version(&object, &now)).await;
    assert_eq!(stored["data"], json!({ "a": "2", "x": "foreign" }));
    // The version is a precondition, not a field: the next apply needs none.
    let (_, object) = at.config("one", &json!({ "a": "3" }));
    assert_eq!(at.apply(&key, &object).await["data"]["a"], "3");
}

async fn apply_with_uid_does_not_recreate_deleted_object(at: &Place) {
    let (key, object) = at.config("gone", &json!({ "a": "1" }));
    let created = at.apply(&key, &object).await;
    let mut guarded = with_version(&object, &text(&created, "resourceVersion"));
    guarded["metadata"]["uid"] = created["metadata"]["uid"].clone();
    assert_eq!(
        at.apply(&key, &guarded).await,
        created,
        "a precondition that holds changes nothing"
    );
    at.delete(&key).await;
    let outcome = at.cluster.apply(&key, &guarded).await;
    assert!(matches!(outcome, Err(CallError::Conflict(_))), "{outcome:?}");
    assert_eq!(at.get(&key).await, None);
}

async fn apply_with_version_alone_recreates_deleted_object(at: &Place) {
    let (key, object) = at.config("gone", &json!({ "a": "1" }));
    let version = text(&at.apply(&key, &object).await, "resourceVersion");
    at.delete(&key).await;
    at.apply(&key, &with_version(&object, &version)).await;
    assert!(at.get(&key).await.is_some());
}

async fn annotation_increments_generation_of_deployment_only(at: &Place) {
    let (key, mut object) = deployment(at, "web", 0);
    let first = at.apply(&key, &object).await;
    object["metadata"]["annotations"] = json!({ "example.org/note": "1" });
    let second = at.apply(&key, &object).await;
    assert!(second["metadata"]["generation"].as_i64() > first["metadata"]["generation"].as_i64());
    let key = at.key(Kind::PodDisruptionBudget, "web");
    let mut object = labelled(&key);
    object["spec"] = json!({ "maxUnavailable": 1 });
    let first = at.apply(&key, &object).await;
    object["metadata"]["annotations"] = json!({ "example.org/note": "1" });
    let second = at.apply(&key, &object).await;
    assert_eq!(second["metadata"]["generation"], first["metadata"]["generation"]);
}

/// Why Trueup must not stop applying `replicas` when an autoscaler takes over.
async fn apply_without_replicas_scales_to_one(at: &Place) {
    let (key, mut object) = deployment(at, "web", 3);
    at.apply(&key, &object).await;
    at.until_pods(3).await;
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("replicas");
    }
    at.apply(&key, &object).await;
    at.until_pods(1).await;
}

async fn disruption_budget_is_stored_as_written(at: &Place) {
    let key = at.key(Kind::PodDisruptionBudget, "web");
    let mut object = labelled(&key);
    let selector = json!({ "matchLabels": { "trueup.dev/name": "web" } });
    object["spec"] = json!({ "maxUnavailable": 1, "selector": selector });
    let stored = at.apply(&key, &object).await;
    assert_eq!(stored["spec"], object["spec"]);
    assert_eq!(stored["apiVersion"], "policy/v1");
    applies_again(at, &key, &object).await;
}

async fn autoscaler_is_stored_as_written(at: &Place) {
    let (target, _) = deployment(at, "web", 2);
    let key = at.key(Kind::HorizontalPodAutoscaler, "web");
    let mut object = labelled(&key);
    object["spec"] = json!({
        "minReplicas": 2, "maxReplicas": 5,
        "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": target.name },
        "metrics": [{ "type": "Resource", "resource": {
            "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 70 },
        } }],
    });
    let stored = at.apply(&key, &object).await;
    for (name, value) in object["spec"].as_object().expect("should be a spec") {
        assert_eq!(stored["spec"][name], *value, "{name}");
    }
    applies_again(at, &key, &object).await;
}

/// Applying again changes neither spec nor generation.
async fn applies_again(at: &Place, key: &ResourceKey, object: &Value) {
    let first = at.get(key).await.expect("should be there");
    let second = at.apply(key, object).await;
    assert_eq!(second["spec"], first["spec"]);
    assert_eq!(second["metadata"]["generation"], first["metadata"]["generation"]);
}
