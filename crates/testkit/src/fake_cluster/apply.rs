//! Server-side apply for one field manager: ours.
//!
//! The last applied object represents the fields we own. A real server keeps a set of paths per
//! manager; for one manager that forces conflicts the two are equivalent.

use serde_json::{Map, Value};

use super::defaults;

/// The result of applying `desired` to `current`, where we own the fields in `owned`.
pub(super) fn merge(current: &Value, owned: Option<&Value>, desired: &Value) -> Value {
    let mut merged = current.clone();
    if let Some(owned) = owned {
        give_up(&mut merged, owned, desired, "");
    }
    set(&mut merged, desired, "");
    merged
}

/// The part of `owned` that still has our value; other writers own the rest.
pub(super) fn still_ours(owned: &Value, object: &Value) -> Value {
    fn keep(owned: &Value, object: &Value, field: &str) -> Option<Value> {
        match (owned, object) {
            (Value::Object(owned), Value::Object(object)) if !is_atomic(field) => {
                let kept = owned.iter().filter_map(|(name, value)| {
                    Some((name.clone(), keep(value, object.get(name)?, name)?))
                });
                Some(Value::Object(kept.collect()))
            }
            (Value::Array(owned), Value::Array(object)) if is_keyed(field, owned) => {
                let kept = owned.iter().filter_map(|item| {
                    keep(item, object.iter().find(|other| same(field, item, other))?, "")
                });
                Some(Value::Array(kept.collect()))
            }
            _ => (owned == object).then(|| owned.clone()),
        }
    }
    keep(owned, object, "").unwrap_or_else(|| Value::Object(Map::new()))
}

/// Removes fields that we own and no longer want. Returns whether nothing is left.
fn give_up(current: &mut Value, owned: &Value, desired: &Value, field: &str) -> bool {
    match (current, owned) {
        (Value::Object(current), Value::Object(owned)) if !is_atomic(field) => {
            for (name, value) in owned {
                let wanted = desired.get(name).unwrap_or(&Value::Null);
                let Some(present) = current.get_mut(name) else {
                    continue;
                };
                if give_up(present, value, wanted, name) && wanted.is_null() {
                    current.remove(name);
                }
            }
            current.is_empty()
        }
        (Value::Array(current), Value::Array(owned)) if is_keyed(field, owned) => {
            for item in owned {
                let Some(index) = current.iter().position(|other| same(field, item, other)) else {
                    continue;
                };
                let wanted = desired
                    .as_array()
                    .and_then(|items| items.iter().find(|other| same(field, item, other)))
                    .unwrap_or(&Value::Null);
                give_up(&mut current[index], item, wanted, "");
                if wanted.is_null() && only_key_left(field, &current[index], item) {
                    current.remove(index);
                }
            }
            current.is_empty()
        }
        // A leaf: the caller removes it if it is not wanted.
        _ => true,
    }
}

/// Whether an entry has no fields of other writers. Defaults of the server have no writer.
fn only_key_left(field: &str, entry: &Value, owned: &Value) -> bool {
    match entry {
        Value::Object(fields) => fields
            .keys()
            .map(String::as_str)
            .all(|name| keys_of(field).contains(&name) || defaults::OF_CONTAINER.contains(&name)),
        leaf => leaf == owned,
    }
}

fn set(current: &mut Value, desired: &Value, field: &str) {
    match (current, desired) {
        (Value::Object(current), Value::Object(desired)) if !is_atomic(field) => {
            for (name, value) in desired {
                set(current.entry(name).or_insert(Value::Null), value, name);
            }
        }
        (Value::Array(current), Value::Array(desired)) if is_keyed(field, desired) => {
            let mut others = std::mem::take(current);
            for item in desired {
                let mut entry = others
                    .iter()
                    .position(|other| same(field, item, other))
                    .map_or(Value::Null, |index| others.remove(index));
                set(&mut entry, item, "");
                current.push(entry);
            }
            current.append(&mut others);
        }
        (current, desired) => *current = desired.clone(),
    }
}

/// Whether a map has one owner as a whole.
pub(super) fn is_atomic(field: &str) -> bool {
    matches!(field, "selector" | "nodeSelector" | "podSelector" | "namespaceSelector")
}

/// Whether entries of this list have keys and separate owners.
pub(super) fn is_keyed(field: &str, items: &[Value]) -> bool {
    let keys = keys_of(field);
    match keys.first() {
        None => field == "finalizers",
        // A list of ports has one key in containers and another in services.
        Some(_) => items.iter().all(|item| keys.iter().any(|key| item.get(key).is_some())),
    }
}

pub(super) fn keys_of(field: &str) -> &'static [&'static str] {
    match field {
        "containers" | "initContainers" | "env" | "volumes" | "imagePullSecrets" => &["name"],
        "ports" => &["containerPort", "port", "protocol"],
        "volumeMounts" => &["mountPath"],
        "ownerReferences" => &["uid"],
        "conditions" => &["type"],
        _ => &[],
    }
}

fn same(field: &str, one: &Value, other: &Value) -> bool {
    let keys = keys_of(field);
    if keys.is_empty() {
        return one == other;
    }
    keys.iter().all(|key| {
        let default = if *key == "protocol" { Some("TCP") } else { None };
        let read = |value: &Value| match (value.get(key), default) {
            (None, Some(default)) => Some(Value::from(default)),
            (found, _) => found.cloned(),
        };
        read(one) == read(other)
    })
}

/// JSON merge patch, RFC 7386.
pub(super) fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else {
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge_patch(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn named_entries_are_merged_and_our_dropped_ones_removed() {
        let ours = json!({ "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }] });
        let mut current = ours.clone();
        current["env"].as_array_mut().unwrap().push(json!({ "name": "X", "value": "foreign" }));
        let desired = json!({ "env": [{ "name": "B", "value": "3" }] });
        let merged = merge(&current, Some(&ours), &desired);
        let expected = json!({ "env": [
            { "name": "B", "value": "3" }, { "name": "X", "value": "foreign" },
        ] });
        assert_eq!(merged, expected);
    }

    #[test]
    fn field_taken_over_by_others_stays_when_we_drop_it() {
        let ours = json!({ "data": { "a": "1", "b": "2" } });
        let edited = json!({ "data": { "a": "theirs", "b": "2" } });
        let owned = still_ours(&ours, &edited);
        let merged = merge(&edited, Some(&owned), &json!({ "data": {} }));
        assert_eq!(merged, json!({ "data": { "a": "theirs" } }));
    }

    #[test]
    fn list_without_keys_is_replaced() {
        let ours = json!({ "args": ["a", "b"] });
        assert_eq!(merge(&ours, Some(&ours), &json!({ "args": ["c"] })), json!({ "args": ["c"] }));
        assert_eq!(merge(&ours, Some(&ours), &json!({})), json!({}));
    }

    #[test]
    fn our_finalizer_is_removed_and_a_foreign_one_stays() {
        let ours = json!({ "finalizers": ["a"] });
        let current = json!({ "finalizers": ["a", "b"] });
        assert_eq!(merge(&current, Some(&ours), &json!({})), json!({ "finalizers": ["b"] }));
    }
}
