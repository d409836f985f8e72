//! Delete, finalizers, owners, and the end of a namespace.

use serde_json::{Value, json};
use trueup_cluster::CallError;
use trueup_model::key::{Kind, ResourceKey};

use super::place::{is_dying, labelled, owned_by, text};
use super::{Check, Place};

const FINALIZER: &str = "trueup.dev/contract";

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("a_delete_with_the_wrong_uid_is_refused", |at| {
        Box::pin(a_delete_with_the_wrong_uid_is_refused(at))
    }),
    ("a_delete_with_an_old_version_is_refused", |at| {
        Box::pin(a_delete_with_an_old_version_is_refused(at))
    }),
    ("a_delete_of_a_missing_object_succeeds", |at| {
        Box::pin(a_delete_of_a_missing_object_succeeds(at))
    }),
    ("an_object_made_again_has_another_uid", |at| {
        Box::pin(an_object_made_again_has_another_uid(at))
    }),
    ("a_finalizer_holds_an_object_until_it_is_removed", |at| {
        Box::pin(a_finalizer_holds_an_object_until_it_is_removed(at))
    }),
    ("a_finalizer_we_stop_applying_is_removed", |at| {
        Box::pin(a_finalizer_we_stop_applying_is_removed(at))
    }),
    ("a_dying_object_takes_no_new_finalizer", |at| {
        Box::pin(a_dying_object_takes_no_new_finalizer(at))
    }),
    ("children_go_with_their_owner", |at| Box::pin(children_go_with_their_owner(at))),
    ("a_child_of_two_owners_stays_until_both_are_gone", |at| {
        Box::pin(a_child_of_two_owners_stays_until_both_are_gone(at))
    }),
    ("a_namespace_takes_its_content_with_it", |at| {
        Box::pin(a_namespace_takes_its_content_with_it(at))
    }),
    ("everything_in_a_namespace_is_named", |at| Box::pin(everything_in_a_namespace_is_named(at))),
    ("a_held_namespace_says_what_holds_it", |at| Box::pin(a_held_namespace_says_what_holds_it(at))),
    ("a_dying_namespace_refuses_new_objects", |at| {
        Box::pin(a_dying_namespace_refuses_new_objects(at))
    }),
];

async fn a_delete_with_the_wrong_uid_is_refused(at: &Place) {
    let (key, object) = at.config("one", &json!({}));
    let version = text(&at.apply(&key, &object).await, "resourceVersion");
    let outcome = at.cluster.delete(&key, "00000000-0000-0000-0000-000000000000", &version).await;
    assert!(matches!(outcome, Err(CallError::Conflict(_))), "{outcome:?}");
    assert!(at.get(&key).await.is_some());
}

async fn a_delete_with_an_old_version_is_refused(at: &Place) {
    let (key, object) = at.config("one", &json!({}));
    let first = at.apply(&key, &object).await;
    at.patch(&key, &json!({ "data": { "a": "1" } })).await;
    let (uid, version) = (text(&first, "uid"), text(&first, "resourceVersion"));
    let outcome = at.cluster.delete(&key, &uid, &version).await;
    assert!(matches!(outcome, Err(CallError::Conflict(_))), "{outcome:?}");
    assert!(at.get(&key).await.is_some());
}

async fn everything_in_a_namespace_is_named(at: &Place) {
    let (key, object) = at.config("one", &json!({}));
    let one = at.apply(&key, &object).await;
    let (key, mut object) = at.config("two", &json!({}));
    object["metadata"]["ownerReferences"] = json!([owned_by(&one)]);
    object["metadata"]["finalizers"] = json!([FINALIZER]);
    let two = at.apply(&key, &object).await;
    at.delete(&key).await;
    let contents = at.cluster.contents(&at.namespace).await.expect("should name everything");
    for kind in ["ConfigMap", "Secret", "Deployment.apps", "NetworkPolicy.networking.k8s.io"] {
        assert!(contents.kinds.contains(kind), "{:?}", contents.kinds);
    }
    assert_eq!(contents.unread, []);
    let find = |name: &str| {
        let mut found =
            contents.items.iter().filter(|it| it.kind == "ConfigMap" && it.name == name);
        let item = found.next().expect("it should be named");
        assert_eq!(found.next(), None, "and only once");
        item
    };
    let (first, second) = (find("one"), find("two"));
    assert_eq!((first.uid.clone(), first.going), (text(&one, "uid"), false));
    assert_eq!((second.uid.clone(), second.going), (text(&two, "uid"), true));
    assert_eq!(second.owners, [text(&one, "uid")]);
    assert_eq!(second.finalizers, [FINALIZER]);
    assert!(!contents.items.iter().any(|item| item.kind == "Namespace"), "it is not in itself");
    at.patch(&key, &json!({ "metadata": { "finalizers": [] } })).await;
    let nothing = at.cluster.contents("no-such-namespace").await.expect("should be empty");
    assert_eq!(nothing.items, []);
}

async fn a_delete_of_a_missing_object_succeeds(at: &Place) {
    let (key, object) = at.config("one", &json!({}));
    let stored = at.apply(&key, &object).await;
    let (uid, version) = (text(&stored, "uid"), text(&stored, "resourceVersion"));
    for _ in 0..2 {
        at.cluster.delete(&key, &uid, &version).await.expect("should delete, or have nothing to");
    }
    assert_eq!(at.get(&key).await, None);
}

async fn an_object_made_again_has_another_uid(at: &Place) {
    let (key, object) = at.config("one", &json!({ "a": "1" }));
    let first = at.apply(&key, &object).await;
    at.delete(&key).await;
    let (_, object) = at.config("one", &json!({ "b": "2" }));
    let second = at.apply(&key, &object).await;
    assert_ne!(text(&first, "uid"), text(&second, "uid"));
    assert_eq!(second["data"], json!({ "b": "2" }));
}

async fn a_finalizer_holds_an_object_until_it_is_removed(at: &Place) {
    let key = held(at).await;
    at.delete(&key).await;
    let dying = at.get(&key).await.expect("should be held");
    assert!(is_dying(&dying));
    // A second delete of the same incarnation is no error and changes nothing.
    at.delete(&key).await;
    assert_eq!(at.get(&key).await.expect("should still be held"), dying);
    at.patch(&key, &json!({ "metadata": { "finalizers": null } })).await;
    assert_eq!(at.get(&key).await, None);
}

async fn a_finalizer_we_stop_applying_is_removed(at: &Place) {
    let key = held(at).await;
    at.delete(&key).await;
    at.apply(&key, &labelled(&key)).await;
    assert_eq!(at.get(&key).await, None);
}

async fn a_dying_object_takes_no_new_finalizer(at: &Place) {
    let key = held(at).await;
    at.delete(&key).await;
    let patch = json!({ "metadata": { "finalizers": [FINALIZER, "trueup.dev/late"] } });
    let outcome = at.cluster.patch(&key, &patch).await;
    assert!(matches!(outcome, Err(CallError::Refused(_))), "{outcome:?}");
    at.patch(&key, &json!({ "metadata": { "finalizers": null } })).await;
}

async fn children_go_with_their_owner(at: &Place) {
    let (owner_key, owner) = at.config("owner", &json!({}));
    let owner = at.apply(&owner_key, &owner).await;
    let child_key = at.key(Kind::Secret, "child");
    let mut child = labelled(&child_key);
    child["metadata"]["ownerReferences"] = json!([owned_by(&owner)]);
    at.apply(&child_key, &child).await;
    at.delete(&owner_key).await;
    at.until_gone(&child_key).await;
}

async fn a_child_of_two_owners_stays_until_both_are_gone(at: &Place) {
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
    // An only child of the first owner shows when collection is done.
    let witness_key = at.key(Kind::Secret, "witness");
    let mut witness = labelled(&witness_key);
    witness["metadata"]["ownerReferences"] = json!([owned_by(&owners[0].0)]);
    at.apply(&witness_key, &witness).await;
    at.delete(&owners[0].1).await;
    at.until_gone(&witness_key).await;
    assert!(at.get(&child_key).await.is_some_and(|child| !is_dying(&child)));
    at.delete(&owners[1].1).await;
    at.until_gone(&child_key).await;
}

async fn a_namespace_takes_its_content_with_it(at: &Place) {
    let (key, object) = at.config("one", &json!({}));
    at.apply(&key, &object).await;
    at.delete(&at.own_namespace()).await;
    at.until_gone(&at.own_namespace()).await;
    assert_eq!(at.get(&key).await, None);
}

async fn a_dying_namespace_refuses_new_objects(at: &Place) {
    let key = held(at).await;
    at.delete(&at.own_namespace()).await;
    let namespace = at.get(&at.own_namespace()).await.expect("should be held by its content");
    assert!(is_dying(&namespace));
    let (late, object) = at.config("late", &json!({}));
    let outcome = at.cluster.apply(&late, &object).await;
    assert!(matches!(outcome, Err(CallError::Refused(_))), "{outcome:?}");
    at.until(&key, "dying", is_dying).await;
    at.patch(&key, &json!({ "metadata": { "finalizers": null } })).await;
    at.until_gone(&at.own_namespace()).await;
}

async fn a_held_namespace_says_what_holds_it(at: &Place) {
    let key = held(at).await;
    at.delete(&at.own_namespace()).await;
    let says = |namespace: &Value, kind: &str, text: &str| {
        let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| {
            condition["type"] == kind
                && condition["status"] == "True"
                && condition["message"].as_str().is_some_and(|message| message.contains(text))
        })
    };
    let held = format!("{FINALIZER} in 1 resource instances");
    at.until(&at.own_namespace(), "held by a finalizer", |namespace| {
        says(namespace, "NamespaceFinalizersRemaining", &held)
            && says(namespace, "NamespaceContentRemaining", "configmaps. has ")
            && !says(namespace, "NamespaceDeletionDiscoveryFailure", "")
    })
    .await;
    at.patch(&key, &json!({ "metadata": { "finalizers": null } })).await;
    at.until_gone(&at.own_namespace()).await;
}

/// An object with a finalizer.
async fn held(at: &Place) -> ResourceKey {
    let (key, mut object) = at.config("held", &json!({}));
    object["metadata"]["finalizers"] = json!([FINALIZER]);
    at.apply(&key, &object).await;
    key
}
