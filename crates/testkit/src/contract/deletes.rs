//! Delete, finalizers, owners, and namespace termination.

use serde_json::{Value, json};
use trueup_cluster::CallError;
use trueup_model::key::{Kind, ResourceKey};

use super::place::{is_terminating, labelled, owned_by, text};
use super::{Check, Place};

const FINALIZER: &str = "trueup.dev/contract";

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("delete_with_wrong_uid_conflicts", |at| Box::pin(delete_with_wrong_uid_conflicts(at))),
    ("delete_with_old_version_conflicts", |at| Box::pin(delete_with_old_version_conflicts(at))),
    ("delete_of_missing_object_succeeds", |at| Box::pin(delete_of_missing_object_succeeds(at))),
    ("recreated_object_has_new_uid", |at| Box::pin(recreated_object_has_new_uid(at))),
    ("finalizer_blocks_deletion_until_removed", |at| {
        Box::pin(finalizer_blocks_deletion_until_removed(at))
    }),
    ("finalizer_we_stop_applying_is_removed", |at| {
        Box::pin(finalizer_we_stop_applying_is_removed(at))
    }),
    ("terminating_object_refuses_new_finalizer", |at| {
        Box::pin(terminating_object_refuses_new_finalizer(at))
    }),
    ("children_are_deleted_with_their_owner", |at| {
        Box::pin(children_are_deleted_with_their_owner(at))
    }),
    ("child_of_two_owners_stays_until_both_are_gone", |at| {
        Box::pin(child_of_two_owners_stays_until_both_are_gone(at))
    }),
    ("namespace_is_deleted_with_its_content", |at| {
        Box::pin(namespace_is_deleted_with_its_content(at))
    }),
    ("contents_lists_every_object_in_namespace", |at| {
        Box::pin(contents_lists_every_object_in_namespace(at))
    }),
    ("blocked_namespace_reports_what_blocks_it", |at| {
        Box::pin(blocked_namespace_reports_what_blocks_it(at))
    }),
    ("terminating_namespace_refuses_new_objects", |at| {
        Box::pin(terminating_namespace_refuses_new_objects(at))
    }),
];

async fn delete_with_wrong_uid_conflicts(at: &Place) {
    let (key, object) = at.config("one", &json!({}));
    let version = text(&at.apply(&key, &object).await, "resourceVersion");
    let outcome = at.cluster.delete(&key, "00000000-0000-0000-0000-000000000000", &version).await;
    assert!(matches!(outcome, Err(CallError::Conflict(_))), "{outcome:?}");
    assert!(at.get(&key).await.is_some());
}

async fn delete_with_old_version_conflicts(at: &Place) {
    let (key, object) = at.config("one", &json!({}));
    let first = at.apply(&key, &object).await;
    at.patch(&key, &json!({ "data": { "a": "1" } })).await;
    let (uid, version) = (text(&first, "uid"), text(&first, "resourceVersion"));
    let outcome = at.cluster.delete(&key, &uid, &version).await;
    assert!(matches!(outcome, Err(CallError::Conflict(_))), "{outcome:?}");
    assert!(at.get(&key).await.is_some());
}

async fn contents_lists_every_object_in_namespace(at: &Place) {
    let (key, object) = at.config("one", &json!({}));
    let one = at.apply(&key, &object).await;
    let (key, mut object) = at.config("two", &json!({}));
    object["metadata"]["ownerReferences"] = json!([owned_by(&one)]);
    object["metadata"]["finalizers"] = json!([FINALIZER]);
    let two = at.apply(&key, &object).await;
    at.delete(&key).await;
    let contents = at.cluster.contents(&at.namespace).await.expect("contents should be listed");
    for kind in ["ConfigMap", "Secret", "Deployment.apps", "NetworkPolicy.networking.k8s.io"] {
        assert!(contents.kinds.contains(kind), "{:?}", contents.kinds);
    }
    assert_eq!(contents.unread, []);
    let find = |name: &str| {
        let mut found =
            contents.items.iter().filter(|it| it.kind == "ConfigMap" && it.name == name);
        let item = found.next().expect("the ConfigMap should be listed");
        assert_eq!(found.next(), None, "the ConfigMap should be listed once");
        item
    };
    let (first, second) = (find("one"), find("two"));
    assert_eq!((first.uid.clone(), first.going), (text(&one, "uid"), false));
    assert_eq!((second.uid.clone(), second.going), (text(&two, "uid"), true));
    assert_eq!(second.owners, [text(&one, "uid")]);
    assert_eq!(second.finalizers, [FINALIZER]);
    assert!(
        !contents.items.iter().any(|item| item.kind == "Namespace"),
        "a namespace does not contain itself"
    );
    at.patch(&key, &json!({ "metadata": { "finalizers": [] } })).await;
    let nothing = at.cluster.contents("no-such-namespace").await.expect("should be empty");
    assert_eq!(nothing.items, []);
}

async fn delete_of_missing_object_succeeds(at: &Place) {
    let (key, object) = at.config("one", &json!({}));
    let stored = at.apply(&key, &object).await;
    let (uid, version) = (text(&stored, "uid"), text(&stored, "resourceVersion"));
    for _ in 0..2 {
        at.cluster.delete(&key, &uid, &version).await.expect("should delete, or find nothing");
    }
    assert_eq!(at.get(&key).await, None);
}

async fn recreated_object_has_new_uid(at: &Place) {
    let (key, object) = at.config("one", &json!({ "a": "1" }));
    let first = at.apply(&key, &object).await;
    at.delete(&key).await;
    let (_, object) = at.config("one", &json!({ "b": "2" }));
    let second = at.apply(&key, &object).await;
    assert_ne!(text(&first, "uid"), text(&second, "uid"));
    assert_eq!(second["data"], json!({ "b": "2" }));
}

async fn finalizer_blocks_deletion_until_removed(at: &Place) {
    let key = object_with_finalizer(at).await;
    at.delete(&key).await;
    let terminating = at.get(&key).await.expect("a finalizer should keep the object");
    assert!(is_terminating(&terminating));
    // A second delete with the same uid is no error and changes nothing.
    at.delete(&key).await;
    assert_eq!(
        at.get(&key).await.expect("the finalizer should still keep the object"),
        terminating
    );
    at.patch(&key, &json!({ "metadata": { "finalizers": null } })).await;
    assert_eq!(at.get(&key).await, None);
}

async fn finalizer_we_stop_applying_is_removed(at: &Place) {
    let key = object_with_finalizer(at).await;
    at.delete(&key).await;
    at.apply(&key, &labelled(&key)).await;
    assert_eq!(at.get(&key).await, None);
}

async fn terminating_object_refuses_new_finalizer(at: &Place) {
    let key = object_with_finalizer(at).await;
    at.delete(&key).await;
    let patch = json!({ "metadata": { "finalizers": [FINALIZER, "trueup.dev/late"] } });
    let outcome = at.cluster.patch(&key, &patch).await;
    assert!(matches!(outcome, Err(CallError::Refused(_))), "{outcome:?}");
    at.patch(&key, &json!({ "metadata": { "finalizers": null } })).await;
}

async fn children_are_deleted_with_their_owner(at: &Place) {
    let (owner_key, owner) = at.config("owner", &json!({}));
    let owner = at.apply(&owner_key, &owner).await;
    let child_key = at.key(Kind::Secret, "child");
    let mut child = labelled(&child_key);
    child["metadata"]["ownerReferences"] = json!([owned_by(&owner)]);
    at.apply(&child_key, &child).await;
    at.delete(&owner_key).await;
    at.until_gone(&child_key).await;
}

async fn child_of_two_owners_stays_until_both_are_gone(at: &Place) {
    let mut owners = Vec::new();
    for name in ["first", "second"] {
        let (key, object) = at.config(name, &json!({}));
        owners.push((at.apply(&key, &object).await, key));
    }
    let child_key = at.key(Kind::Secret, "child");
    let mut child = labelled(&child_key);
    let references: Vec<_> = owners.iter().map(|(owner, _)| owned_by(owner)).collect();
    child["metadata"]["ownerReferences"] = references.into();
    at.apply(&child_key, &child).await;
    // Another child, of the first owner only, shows when garbage collection is done.
    let witness_key = at.key(Kind::Secret, "witness");
    let mut witness = labelled(&witness_key);
    witness["metadata"]["ownerReferences"] = json!([owned_by(&owners[0].0)]);
    at.apply(&witness_key, &witness).await;
    at.delete(&owners[0].1).await;
    at.until_gone(&witness_key).await;
    assert!(at.get(&child_key).await.is_some_and(|child| !is_terminating(&child)));
    at.delete(&owners[1].1).await;
    at.until_gone(&child_key).await;
}

async fn namespace_is_deleted_with_its_content(at: &Place) {
    let (key, object) = at.config("one", &json!({}));
    at.apply(&key, &object).await;
    at.delete(&at.own_namespace()).await;
    at.until_gone(&at.own_namespace()).await;
    assert_eq!(at.get(&key).await, None);
}

async fn terminating_namespace_refuses_new_objects(at: &Place) {
    let key = object_with_finalizer(at).await;
    at.delete(&at.own_namespace()).await;
    let namespace =
        at.get(&at.own_namespace()).await.expect("its content should keep the namespace");
    assert!(is_terminating(&namespace));
    let (late, object) = at.config("late", &json!({}));
    let outcome = at.cluster.apply(&late, &object).await;
    assert!(matches!(outcome, Err(CallError::Refused(_))), "{outcome:?}");
    at.until(&key, "terminating", is_terminating).await;
    at.patch(&key, &json!({ "metadata": { "finalizers": null } })).await;
    at.until_gone(&at.own_namespace()).await;
}

async fn blocked_namespace_reports_what_blocks_it(at: &Place) {
    let key = object_with_finalizer(at).await;
    at.delete(&at.own_namespace()).await;
    let has_condition = |namespace: &Value, kind: &str, text: &str| {
        let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| {
            condition["type"] == kind
                && condition["status"] == "True"
                && condition["message"].as_str().is_some_and(|message| message.contains(text))
        })
    };
    let blocked = format!("{FINALIZER} in 1 resource instances");
    at.until(&at.own_namespace(), "blocked by a finalizer", |namespace| {
        has_condition(namespace, "NamespaceFinalizersRemaining", &blocked)
            && has_condition(namespace, "NamespaceContentRemaining", "configmaps. has ")
            && !has_condition(namespace, "NamespaceDeletionDiscoveryFailure", "")
    })
    .await;
    at.patch(&key, &json!({ "metadata": { "finalizers": null } })).await;
    at.until_gone(&at.own_namespace()).await;
}

/// Applies an object with a finalizer.
async fn object_with_finalizer(at: &Place) -> ResourceKey {
    let (key, mut object) = at.config("held", &json!({}));
    object["metadata"]["finalizers"] = json!([FINALIZER]);
    at.apply(&key, &object).await;
    key
}
