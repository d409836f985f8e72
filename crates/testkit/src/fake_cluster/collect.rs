//! Garbage collection by owner, and namespace termination.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trueup_model::key::{Kind, ResourceKey};

use super::state::{State, StoredChange};

/// Deletes objects whose owners are all gone.
pub(super) fn children(state: &mut State, change: &StoredChange) {
    let candidates = if change.gone {
        state.children_of(change.object["metadata"]["uid"].as_str().unwrap_or_default())
    } else {
        vec![change.key.clone()]
    };
    for key in candidates {
        if is_orphan(state, &key) {
            state.delete(&key);
        }
    }
}

fn is_orphan(state: &State, key: &ResourceKey) -> bool {
    let Some(object) = state.get(key) else {
        return false;
    };
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.is_some_and(|owners| {
        !owners.is_empty() && owners.iter().all(|owner| !exists(state, key, owner))
    })
}

/// Whether an owner exists. An owner of a kind that is not modelled counts as existing.
fn exists(state: &State, child: &ResourceKey, owner: &Value) -> bool {
    let Ok(kind) = owner["kind"].as_str().unwrap_or_default().parse::<Kind>() else {
        return true;
    };
    let name = owner["name"].as_str().unwrap_or_default();
    let key = ResourceKey::new(kind, &child.namespace, name);
    state.get(&key).is_some_and(|found| found["metadata"]["uid"] == owner["uid"])
}

/// Deletes the content of a terminating namespace, then the namespace.
pub(super) fn namespace(state: &mut State, change: &StoredChange) {
    let name = match change.key.kind {
        Kind::Namespace => &change.key.name,
        Kind::PersistentVolume | Kind::Node => return,
        _ => &change.key.namespace,
    };
    let key = ResourceKey::new(Kind::Namespace, "", name);
    let is_terminating = state
        .get(&key)
        .is_some_and(|object| object.pointer("/metadata/deletionTimestamp").is_some());
    if !is_terminating {
        return;
    }
    let content: Vec<ResourceKey> = Kind::ALL
        .into_iter()
        .filter(|kind| kind.is_namespaced())
        .flat_map(|kind| state.in_namespace(kind, name).map(|(key, _)| key.clone()))
        .collect();
    for key in &content {
        state.delete(key);
    }
    let left: Vec<ResourceKey> =
        content.into_iter().filter(|key| state.get(key).is_some()).collect();
    let conditions = conditions(state, &left);
    let ends = left.is_empty() && state.broken_group.is_none();
    state.edit(&key, |object| {
        object["status"]["conditions"] = conditions;
        if ends {
            object["spec"]["finalizers"] = json!([]);
        }
    });
}

/// The conditions that the namespace controller sets on a terminating namespace.
///
/// An unavailable API group blocks termination, and so do objects with finalizers.
fn conditions(state: &State, left: &[ResourceKey]) -> Value {
    let broken = state.broken_group.as_ref().map(|group| {
        format!(
            "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of \
             server APIs: {group}: the server is currently unable to handle the request"
        )
    });
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut by_finalizer: BTreeMap<String, usize> = BTreeMap::new();
    for key in left {
        *kinds.entry(key.kind.plural()).or_default() += 1;
        let finalizers = state.get(key).and_then(|object| object.pointer("/metadata/finalizers"));
        for finalizer in finalizers.and_then(Value::as_array).into_iter().flatten() {
            *by_finalizer.entry(finalizer.as_str().unwrap_or_default().to_owned()).or_default() +=
                1;
        }
    }
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(kind, count)| format!("{kind}. has {count} resource instances"))
        .collect();
    let by_finalizer: Vec<String> = by_finalizer
        .iter()
        .map(|(name, count)| format!("{name} in {count} resource instances"))
        .collect();
    let remaining =
        (!kinds.is_empty()).then(|| format!("Some resources are remaining: {}", kinds.join(", ")));
    let finalizers = (!by_finalizer.is_empty()).then(|| {
        format!(
            "Some content in the namespace has finalizers remaining: {}",
            by_finalizer.join(", ")
        )
    });
    let table = [
        ("NamespaceDeletionDiscoveryFailure", broken, "DiscoveryFailed", "ResourcesDiscovered"),
        ("NamespaceContentRemaining", remaining, "SomeResourcesRemain", "ContentRemoved"),
        (
            "NamespaceFinalizersRemaining",
            finalizers,
            "SomeFinalizersRemain",
            "ContentHasNoFinalizers",
        ),
    ];
    table
        .into_iter()
        .map(|(name, failure, bad, good)| {
            let (status, reason) = if failure.is_some() { ("True", bad) } else { ("False", good) };
            json!({ "type": name, "status": status, "reason": reason,
                    "message": failure.unwrap_or_default() })
        })
        .collect()
}
