//! Lists all objects of a namespace, and the API group that is unavailable.

use serde_json::Value;
use trueup_model::key::Kind;
use trueup_model::survey::{Contents, Item, Unread};

use super::state::State;

/// The namespaced kinds: those that are watched and those that are only read.
fn kinds() -> impl Iterator<Item = Kind> {
    Kind::WATCHED.into_iter().chain(Kind::READ).filter(|kind| kind.is_namespaced())
}

pub(super) fn of(state: &State, namespace: &str) -> Contents {
    let unread = state.broken_group.iter().map(|group| Unread {
        what: group.clone(),
        why: "its API server is unavailable".to_owned(),
    });
    let items = kinds().flat_map(|kind| {
        let found = state.in_namespace(kind, namespace);
        found.map(move |(_, object)| item(kind, object)).collect::<Vec<_>>()
    });
    Contents {
        kinds: kinds().map(name).collect(),
        unread: unread.collect(),
        items: items.collect(),
    }
}

fn name(kind: Kind) -> String {
    match kind.group() {
        "" => kind.as_str().to_owned(),
        group => format!("{kind}.{group}"),
    }
}

fn item(kind: Kind, object: &Value) -> Item {
    let metadata = &object["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    Item {
        kind: kind.as_str().to_owned(),
        name: text(&metadata["name"]),
        uid: text(&metadata["uid"]),
        owners: list(&metadata["ownerReferences"]).iter().map(|it| text(&it["uid"])).collect(),
        finalizers: list(&metadata["finalizers"]).iter().map(text).collect(),
        going: !metadata["deletionTimestamp"].is_null(),
    }
}
