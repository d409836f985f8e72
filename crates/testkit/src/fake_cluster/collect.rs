//! Garbage collection by owner, and the end of a namespace.

use serde_json::{Value, json};
use trueup_model::key::{Kind, ResourceKey};

use super::state::{Change, State};

/// Deletes objects whose owners are all gone.
pub(super) fn children(state: &mut State, change: &Change) {
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
        !owners.is_empty() && owners.iter().all(|owner| !is_there(state, key, owner))
    })
}

/// An owner of a kind that is not modelled is taken to be there.
fn is_there(state: &State, child: &ResourceKey, owner: &Value) -> bool {
    let Ok(kind) = owner["kind"].as_str().unwrap_or_default().parse::<Kind>() else {
        return true;
    };
    let name = owner["name"].as_str().unwrap_or_default();
    let key = ResourceKey::new(kind, &child.namespace, name);
    state.get(&key).is_some_and(|found| found["metadata"]["uid"] == owner["uid"])
}

/// Empties a namespace that is to go, and lets it go once it is empty.
pub(super) fn namespace(state: &mut State, change: &Change) {
    let name = match change.key.kind {
        Kind::Namespace => &change.key.name,
        Kind::PersistentVolume | Kind::Node => return,
        _ => &change.key.namespace,
    };
    let key = ResourceKey::new(Kind::Namespace, "", name);
    let is_ending = state
        .get(&key)
        .is_some_and(|object| object.pointer("/metadata/deletionTimestamp").is_some());
    if !is_ending {
        return;
    }
    let content: Vec<ResourceKey> = Kind::ALL
        .into_iter()
        .filter(|kind| kind.is_namespaced())
        .flat_map(|kind| state.in_namespace(kind, name).map(|(key, _)| key.clone()))
        .collect();
    if content.is_empty() {
        state.edit(&key, |object| object["spec"]["finalizers"] = json!([]));
    }
    for key in content {
        state.delete(&key);
    }
}
