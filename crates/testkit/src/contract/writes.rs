//! Apply, patch and get.

use serde_json::json;
use trueup_cluster::CallError;
use trueup_model::key::{Kind, ResourceKey};

use super::place::{labelled, text};
use super::workloads::deployment;
use super::{Check, Place};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("apply_returns_the_stored_object", |at| Box::pin(apply_returns_the_stored_object(at))),
    ("apply_without_change_keeps_the_version", |at| {
        Box::pin(apply_without_change_keeps_the_version(at))
    }),
    ("apply_with_version_one_only_creates", |at| Box::pin(apply_with_version_one_only_creates(at))),
    ("field_we_stop_applying_is_removed", |at| Box::pin(field_we_stop_applying_is_removed(at))),
    ("list_entry_we_stop_applying_is_removed", |at| {
        Box::pin(list_entry_we_stop_applying_is_removed(at))
    }),
    ("foreign_field_survives_our_apply", |at| Box::pin(foreign_field_survives_our_apply(at))),
    ("foreign_list_entry_survives_our_apply", |at| {
        Box::pin(foreign_list_entry_survives_our_apply(at))
    }),
    ("apply_reverts_foreign_change", |at| Box::pin(apply_reverts_foreign_change(at))),
    ("field_taken_over_by_others_stays_when_we_drop_it", |at| {
        Box::pin(field_taken_over_by_others_stays_when_we_drop_it(at))
    }),
    ("merge_patch_with_old_version_conflicts", |at| {
        Box::pin(merge_patch_with_old_version_conflicts(at))
    }),
    ("merge_patch_with_wrong_uid_conflicts", |at| {
        Box::pin(merge_patch_with_wrong_uid_conflicts(at))
    }),
    ("merge_patch_with_null_removes_the_field", |at| {
        Box::pin(merge_patch_with_null_removes_the_field(at))
    }),
    ("patch_of_missing_object_conflicts", |at| Box::pin(patch_of_missing_object_conflicts(at))),
    ("get_of_missing_object_returns_none", |at| Box::pin(get_of_missing_object_returns_none(at))),
    ("apply_in_missing_namespace_is_refused", |at| {
        Box::pin(apply_in_missing_namespace_is_refused(at))
    }),
    ("invalid_object_is_refused_and_the_field_named", |at| {
        Box::pin(invalid_object_is_refused_and_the_field_named(at))
    }),
    ("unknown_field_is_refused_and_named", |at| Box::pin(unknown_field_is_refused_and_named(at))),
    ("immutable_field_change_is_refused_and_named", |at| {
        Box::pin(immutable_field_change_is_refused_and_named(at))
    }),
];

async fn apply_returns_the_stored_object(at: &Place) {
    let (key, object) = at.config("one", &json!({ "a": "1" }));
    let answer = at.apply(&key, &object).await;
    assert_eq!(answer["kind"], "ConfigMap");
    assert_eq!(answer["apiVersion"], "v1");
    assert_eq!(answer["data"], json!({ "a": "1" }));
    assert_eq!(text(&answer, "namespace"), at.namespace);
    assert!(!text(&answer, "uid").is_empty() && !text(&answer, "resourceVersion").is_empty());
    assert_eq!(answer.pointer("/metadata/managedFields"), None);
    assert_eq!(at.get(&key).await, Some(answer));
}

async fn apply_without_change_keeps_the_version(at: &Place) {
    let (key, object) = at.config("one", &json!({ "a": "1" }));
    let first = at.apply(&key, &object).await;
    assert_eq!(at.apply(&key, &object).await, first);
    let (key, object) = deployment(at, "web", 0);
    let first = at.apply(&key, &object).await;
    at.until(&key, "observed by its controller", |object| {
        object["status"]["observedGeneration"] == 1
    })
    .await;
    let second = at.apply(&key, &object).await;
    assert_eq!(second["metadata"]["generation"], first["metadata"]["generation"]);
    let third = at.apply(&key, &object).await;
    assert_eq!(text(&third, "resourceVersion"), text(&second, "resourceVersion"));
}

async fn apply_with_version_one_only_creates(at: &Place) {
    let created = [at.config("one", &json!({ "a": "1" })), deployment(at, "web", 0)];
    for (key, mut object) in created {
        object["metadata"]["resourceVersion"] = "1".into();
        let created = at.apply(&key, &object).await;
        assert_ne!(text(&created, "resourceVersion"), "1");
        let refused = at.cluster.apply(&key, &object).await;
        assert!(matches!(refused, Err(CallError::Conflict(_))), "{refused:?}");
        let there = at.get(&key).await.unwrap_or_default();
        assert_eq!(text(&there, "uid"), text(&created, "uid"));
    }
}

async fn field_we_stop_applying_is_removed(at: &Place) {
    let (key, mut object) = at.config("one", &json!({ "a": "1", "b": "2" }));
    object["metadata"]["labels"]["extra"] = "yes".into();
    at.apply(&key, &object).await;
    let (_, object) = at.config("one", &json!({ "a": "1" }));
    let answer = at.apply(&key, &object).await;
    assert_eq!(answer["data"], json!({ "a": "1" }));
    assert_eq!(answer["metadata"]["labels"], json!({ "app.kubernetes.io/managed-by": "trueup" }));
}

async fn list_entry_we_stop_applying_is_removed(at: &Place) {
    let (key, mut object) = deployment(at, "web", 0);
    let env = "/spec/template/spec/containers/0/env";
    object["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }]);
    at.apply(&key, &object).await;
    let kept = json!([{ "name": "B", "value": "2" }]);
    object["spec"]["template"]["spec"]["containers"][0]["env"] = kept.clone();
    assert_eq!(at.apply(&key, &object).await.pointer(env), Some(&kept));
    let (_, object) = deployment(at, "web", 0);
    assert_eq!(at.apply(&key, &object).await.pointer(env), None);
}

async fn foreign_field_survives_our_apply(at: &Place) {
    let (key, object) = at.config("one", &json!({ "a": "1" }));
    at.apply(&key, &object).await;
    at.patch(&key, &json!({ "data": { "x": "foreign" } })).await;
    let (_, object) = at.config("one", &json!({ "a": "2" }));
    let answer = at.apply(&key, &object).await;
    assert_eq!(answer["data"], json!({ "a": "2", "x": "foreign" }));
}

async fn foreign_list_entry_survives_our_apply(at: &Place) {
    let (key, mut object) = deployment(at, "web", 0);
    let ours = json!({ "name": "A", "value": "1" });
    object["spec"]["template"]["spec"]["containers"][0]["env"] = json!([ours]);
    let stored = at.apply(&key, &object).await;
    let mut containers = stored["spec"]["template"]["spec"]["containers"].clone();
    let foreign = json!({ "name": "X", "value": "foreign" });
    containers[0]["env"] = json!([ours, foreign]);
    at.patch(&key, &json!({ "spec": { "template": { "spec": { "containers": containers } } } }))
        .await;
    let answer = at.apply(&key, &object).await;
    let env = &answer["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(*env, json!([ours, foreign]));
}

async fn apply_reverts_foreign_change(at: &Place) {
    let (key, object) = at.config("one", &json!({ "a": "1" }));
    at.apply(&key, &object).await;
    at.patch(&key, &json!({ "data": { "a": "foreign" } })).await;
    assert_eq!(at.apply(&key, &object).await["data"], json!({ "a": "1" }));
}

async fn field_taken_over_by_others_stays_when_we_drop_it(at: &Place) {
    let (key, object) = at.config("one", &json!({ "a": "1", "b": "2" }));
    at.apply(&key, &object).await;
    at.patch(&key, &json!({ "data": { "b": "foreign" } })).await;
    let (_, object) = at.config("one", &json!({ "a": "1" }));
    let answer = at.apply(&key, &object).await;
    assert_eq!(answer["data"], json!({ "a": "1", "b": "foreign" }));
}

async fn merge_patch_with_old_version_conflicts(at: &Place) {
    let (key, object) = at.config("one", &json!({ "a": "1" }));
    let old = text(&at.apply(&key, &object).await, "resourceVersion");
    let new = text(&at.patch(&key, &json!({ "data": { "b": "2" } })).await, "resourceVersion");
    let patch =
        |version| json!({ "metadata": { "resourceVersion": version }, "data": { "c": "3" } });
    let outcome = at.cluster.patch(&key, &patch(old)).await;
    assert!(matches!(outcome, Err(CallError::Conflict(_))), "{outcome:?}");
    assert_eq!(at.patch(&key, &patch(new)).await["data"]["c"], "3");
}

async fn merge_patch_with_wrong_uid_conflicts(at: &Place) {
    let (key, object) = at.config("one", &json!({ "a": "1" }));
    let uid = text(&at.apply(&key, &object).await, "uid");
    let patch = |uid| json!({ "metadata": { "uid": uid }, "data": { "c": "3" } });
    let outcome = at.cluster.patch(&key, &patch("00000000-0000-0000-0000-000000000000")).await;
    assert!(matches!(outcome, Err(CallError::Conflict(_))), "{outcome:?}");
    assert_eq!(at.patch(&key, &patch(&uid)).await["data"]["c"], "3");
}

async fn merge_patch_with_null_removes_the_field(at: &Place) {
    let (key, object) = at.config("one", &json!({ "a": "1", "b": "2" }));
    at.apply(&key, &object).await;
    let answer = at.patch(&key, &json!({ "data": { "a": null } })).await;
    assert_eq!(answer["data"], json!({ "b": "2" }));
}

async fn patch_of_missing_object_conflicts(at: &Place) {
    let key = at.key(Kind::ConfigMap, "none");
    let outcome = at.cluster.patch(&key, &json!({ "data": { "a": "1" } })).await;
    assert!(matches!(outcome, Err(CallError::Conflict(_))), "{outcome:?}");
}

async fn get_of_missing_object_returns_none(at: &Place) {
    assert_eq!(at.get(&at.key(Kind::ConfigMap, "none")).await, None);
    let elsewhere = format!("{}-none", at.namespace);
    assert_eq!(at.get(&ResourceKey::new(Kind::ConfigMap, &elsewhere, "none")).await, None);
    assert_eq!(at.get(&ResourceKey::new(Kind::Namespace, "", &elsewhere)).await, None);
}

async fn apply_in_missing_namespace_is_refused(at: &Place) {
    let elsewhere = format!("{}-none", at.namespace);
    let key = ResourceKey::new(Kind::ConfigMap, &elsewhere, "one");
    let outcome = at.cluster.apply(&key, &labelled(&key)).await;
    let Err(CallError::Refused(message)) = outcome else {
        unreachable!("should be refused, was {outcome:?}")
    };
    assert!(message.contains(&elsewhere), "{message}");
}

async fn invalid_object_is_refused_and_the_field_named(at: &Place) {
    let (key, mut object) = deployment(at, "web", 0);
    object["spec"]["template"]["metadata"]["labels"] = json!({ "other": "label" });
    refused_for(at, &key, &object, "spec.template.metadata.labels").await;
    let (key, mut object) = deployment(at, "web", 0);
    object["spec"]["template"]["spec"]["containers"][0]["image"] = "".into();
    refused_for(at, &key, &object, "spec.template.spec.containers[0].image").await;
    assert_eq!(at.get(&key).await, None);
}

async fn unknown_field_is_refused_and_named(at: &Place) {
    let (key, mut object) = deployment(at, "web", 0);
    object["spec"]["replicaz"] = 1.into();
    refused_for(at, &key, &object, ".spec.replicaz").await;
}

async fn immutable_field_change_is_refused_and_named(at: &Place) {
    let (key, mut object) = deployment(at, "web", 0);
    at.apply(&key, &object).await;
    let labels = json!({ "trueup.dev/name": "other" });
    object["spec"]["selector"]["matchLabels"] = labels.clone();
    object["spec"]["template"]["metadata"]["labels"] = labels;
    refused_for(at, &key, &object, "spec.selector").await;
}

async fn refused_for(at: &Place, key: &ResourceKey, object: &serde_json::Value, field: &str) {
    let outcome = at.cluster.apply(key, object).await;
    let Err(CallError::Refused(message)) = outcome else {
        unreachable!("should be refused for {field}, was {outcome:?}")
    };
    assert!(message.contains(field), "{field} should be named in: {message}");
}
