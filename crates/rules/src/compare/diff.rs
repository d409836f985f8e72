//! Whether a live object has everything that was applied.
//!
//! The server and other writers may add fields; only fields that we set are compared. A field that
//! we no longer set is found by the digest annotation instead, and foreign values at closed paths
//! by [`closed`](crate::compare::closed).

use serde_json::Value;

use crate::compare::owner;
use crate::compare::path::{Path, PathSegment};

/// The first field that differs from what was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The path of the field.
    pub field: String,
    /// The field manager, if the server recorded one.
    pub by: Option<String>,
}

/// The path of the first field in `wanted` that is missing or different in `live`.
#[must_use]
pub fn first_difference(wanted: &Value, live: &Value) -> Option<String> {
    difference(wanted, live).map(|found| found.field)
}

/// The same with the manager that wrote it.
pub(crate) fn difference(wanted: &Value, live: &Value) -> Option<Difference> {
    let found = differs(wanted, live, &mut Path::default())?;
    Some(Difference { field: found.to_string(), by: owner::of(live, &found) })
}

fn differs<'a>(wanted: &'a Value, live: &'a Value, path: &mut Path<'a>) -> Option<Path<'a>> {
    let same = match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            return wanted.iter().find_map(|(name, value)| {
                let found = live.get(name).unwrap_or(&Value::Null);
                path.inside(PathSegment::Field(name), |path| differs(value, found, path))
            });
        }
        // Finalizers are a set with many writers: foreign ones are no difference.
        (Value::Array(wanted), Value::Array(live)) if path.is(&["metadata", "finalizers"]) => {
            wanted.iter().all(|finalizer| live.contains(finalizer))
        }
        (Value::Array(wanted), Value::Array(live)) => return list_differs(wanted, live, path),
        // An empty object or list and none at all are the same to the API server.
        (wanted, Value::Null) => is_empty(wanted),
        (wanted, live) => wanted == live,
    };
    (!same).then(|| path.clone())
}

/// Entries with names are matched by name, because others may add entries in between; other lists
/// must match entry by entry.
fn list_differs<'a>(
    wanted: &'a [Value],
    live: &'a [Value],
    path: &mut Path<'a>,
) -> Option<Path<'a>> {
    let named = wanted.iter().all(|entry| entry["name"].is_string()) && !wanted.is_empty();
    if !named && wanted.len() != live.len() {
        return Some(path.clone());
    }
    wanted.iter().enumerate().find_map(|(index, entry)| {
        let found = if named {
            live.iter().find(|other| other["name"] == entry["name"])
        } else {
            live.get(index)
        };
        let found = found.unwrap_or(&Value::Null);
        path.inside(PathSegment::Entry(index, entry), |path| differs(entry, found, path))
    })
}

/// Whether a value is null, empty, or has only such fields.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_added_by_the_server_are_no_difference() {
        let wanted = json!({"spec": {"replicas": 2, "ports": [{"name": "http", "port": 80}]}});
        let live = json!({
            "metadata": {"uid": "1"},
            "spec": {"replicas": 2, "paused": false,
                     "ports": [{"name": "side", "port": 9}, {"name": "http", "port": 80, "protocol": "TCP"}]},
        });
        assert_eq!(first_difference(&wanted, &live), None);
    }

    #[test]
    fn a_difference_is_named_by_its_path() {
        let cases = [
            (json!({"spec": {"replicas": 2}}), json!({"spec": {"replicas": 3}}), "spec.replicas"),
            (json!({"spec": {"replicas": 2}}), json!({}), "spec"),
            (
                json!({"c": [{"name": "a", "image": "x"}]}),
                json!({"c": [{"name": "a", "image": "y"}]}),
                "c.a.image",
            ),
            (json!({"c": [{"name": "a"}]}), json!({"c": []}), "c.a"),
            (json!({"args": ["a", "b"]}), json!({"args": ["a"]}), "args"),
            (json!({"args": ["a"]}), json!({"args": ["b"]}), "args.0"),
        ];
        for (wanted, live, path) in cases {
            assert_eq!(first_difference(&wanted, &live).as_deref(), Some(path));
        }
    }

    #[test]
    fn a_foreign_finalizer_beside_ours_is_no_difference() {
        let wanted = json!({"metadata": {"finalizers": ["ours"]}});
        let with = |by: &[&str]| json!({"metadata": {"finalizers": by}});
        assert_eq!(first_difference(&wanted, &with(&["theirs", "ours"])), None);
        assert_eq!(
            first_difference(&wanted, &with(&["theirs"])).as_deref(),
            Some("metadata.finalizers")
        );
    }

    #[test]
    fn empty_and_absent_are_the_same() {
        assert_eq!(first_difference(&json!({"data": {}, "a": []}), &json!({})), None);
    }
}
