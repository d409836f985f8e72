//! Server-side dry runs.

use serde_json::{Value, json};
use trueup_cluster::{CallError, Draft};
use trueup_model::key::{Kind, ResourceKey};

use super::place::{labelled, text};
use super::workloads::deployment;
use super::{Check, Place};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("dry_run_of_create_returns_object_and_creates_nothing", |at| {
        Box::pin(dry_run_of_create_returns_object_and_creates_nothing(at))
    }),
    ("dry_run_of_apply_changes_nothing", |at| Box::pin(dry_run_of_apply_changes_nothing(at))),
    ("dry_run_of_patch_changes_nothing", |at| Box::pin(dry_run_of_patch_changes_nothing(at))),
    ("dry_run_checks_preconditions_like_a_write", |at| {
        Box::pin(dry_run_checks_preconditions_like_a_write(at))
    }),
    ("dry_run_is_refused_like_a_write", |at| Box::pin(dry_run_is_refused_like_a_write(at))),
];

async fn dry_run_apply(at: &Place, key: &ResourceKey, object: &Value) -> Value {
    at.cluster.dry_run(key, Draft::Apply(object)).await.expect("the dry run should succeed")
}

async fn dry_run_of_create_returns_object_and_creates_nothing(at: &Place) {
    let (key, mut object) = deployment(at, "web", 1);
    for version in [None, Some("1")] {
        if let Some(version) = version {
            object["metadata"]["resourceVersion"] = version.into();
        }
        let shown = dry_run_apply(at, &key, &object).await;
        assert_eq!((&shown["kind"], &shown["spec"]["replicas"]), (&json!("Deployment"), &json!(1)));
        assert_eq!(text(&shown, "namespace"), at.namespace);
        assert!(!text(&shown, "uid").is_empty(), "{shown}");
        // Nothing is stored, so the version that was sent comes back.
        assert_eq!(text(&shown, "resourceVersion"), version.unwrap_or_default());
        assert_eq!(shown.pointer("/metadata/managedFields"), None);
    }
    // It includes the server's defaults.
    let (_, plain) = deployment(at, "web", 1);
    let stored = at.apply(&key, &plain).await;
    assert_eq!(dry_run_apply(at, &key, &plain).await["spec"], stored["spec"]);
    at.delete(&key).await;
    at.until_gone(&key).await;
    assert_eq!(dry_run_apply(at, &key, &object).await["spec"], stored["spec"]);
    assert_eq!(at.get(&key).await, None);
    assert!(at.listed(Kind::Deployment).await.is_empty());
}

async fn dry_run_of_apply_changes_nothing(at: &Place) {
    let (key, object) = at.config("one", &json!({ "a": "1", "b": "2" }));
    at.apply(&key, &object).await;
    let before = at.patch(&key, &json!({ "data": { "x": "foreign" } })).await;
    let (_, changed) = at.config("one", &json!({ "a": "3" }));
    let shown = dry_run_apply(at, &key, &changed).await;
    // Fields we stop applying are removed, foreign fields stay.
    assert_eq!(shown["data"], json!({ "a": "3", "x": "foreign" }));
    assert_eq!(text(&shown, "uid"), text(&before, "uid"));
    assert_eq!(text(&shown, "resourceVersion"), text(&before, "resourceVersion"));
    assert_eq!(at.get(&key).await, Some(before));
}

async fn dry_run_of_patch_changes_nothing(at: &Place) {
    let (key, object) = at.config("one", &json!({ "a": "1", "b": "2" }));
    let before = at.apply(&key, &object).await;
    let guard = text(&before, "resourceVersion");
    let patch = json!({ "metadata": { "resourceVersion": guard }, "data": { "a": null } });
    let shown =
        at.cluster.dry_run(&key, Draft::Patch(&patch)).await.expect("the dry run should succeed");
    assert_eq!(shown["data"], json!({ "b": "2" }));
    assert_eq!(text(&shown, "resourceVersion"), guard);
    assert_eq!(at.get(&key).await, Some(before));
}

async fn dry_run_checks_preconditions_like_a_write(at: &Place) {
    let (key, mut object) = at.config("one", &json!({ "a": "1" }));
    at.apply(&key, &object).await;
    object["metadata"]["resourceVersion"] = "1".into();
    let patch = json!({ "metadata": { "resourceVersion": "1" }, "data": { "a": "2" } });
    for draft in [Draft::Apply(&object), Draft::Patch(&patch)] {
        let outcome = at.cluster.dry_run(&key, draft).await;
        assert!(matches!(outcome, Err(CallError::Conflict(_))), "{outcome:?}");
    }
    let none = at.key(Kind::ConfigMap, "none");
    let outcome = at.cluster.dry_run(&none, Draft::Patch(&json!({ "data": {} }))).await;
    assert!(matches!(outcome, Err(CallError::Conflict(_))), "{outcome:?}");
}

async fn dry_run_is_refused_like_a_write(at: &Place) {
    let (key, mut object) = deployment(at, "web", 0);
    object["spec"]["template"]["spec"]["containers"][0]["image"] = "".into();
    refused_for(at, &key, &object, "spec.template.spec.containers[0].image").await;
    let (_, mut object) = deployment(at, "web", 0);
    object["spec"]["replicaz"] = 1.into();
    refused_for(at, &key, &object, ".spec.replicaz").await;
    let (_, mut object) = deployment(at, "web", 0);
    at.apply(&key, &object).await;
    let labels = json!({ "trueup.dev/name": "other" });
    object["spec"]["selector"]["matchLabels"] = labels.clone();
    object["spec"]["template"]["metadata"]["labels"] = labels;
    refused_for(at, &key, &object, "spec.selector").await;
    let elsewhere = format!("{}-none", at.namespace);
    let key = ResourceKey::new(Kind::ConfigMap, &elsewhere, "one");
    refused_for(at, &key, &labelled(&key), &elsewhere).await;
}

async fn refused_for(at: &Place, key: &ResourceKey, object: &Value, field: &str) {
    let outcome = at.cluster.dry_run(key, Draft::Apply(object)).await;
    let Err(CallError::Refused(message)) = outcome else {
        unreachable!("should be refused for {field}, was {outcome:?}")
    };
    assert!(message.contains(field), "{field} should be named in: {message}");
}
