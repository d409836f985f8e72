//! Whether a live object has everything that was applied.
//!
//! The server and other writers may add fields; only fields that we set are compared. A field that
//! we no longer set is found by the digest annotation instead, and foreign values at closed paths
//! by [`closed`](crate::compare::closed).

use std::ops::ControlFlow;

use serde_json::Value;

use crate::compare::owner;
use crate::compare::path::{Path, PathSegment};

/// A field that differs from what was applied, and its writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The path of the field.
    pub field: String,
    /// The field manager, if the server recorded one.
    pub by: Option<String>,
}

/// A field that differs from what was applied, with both values.
#[derive(Debug, Clone)]
pub(crate) struct FieldDifference<'a> {
    /// Where; list entries by their index in the desired object.
    pub(crate) path: Path<'a>,
    /// The desired value.
    pub(crate) wanted: &'a Value,
    /// The live value; null for none.
    pub(crate) live: &'a Value,
}

impl FieldDifference<'_> {
    /// What a missing map contains, down to values and named list entries; nothing for other
    /// differences.
    pub(crate) fn leaves(&self) -> Vec<Self> {
        let mut found = Vec::new();
        let is_entry = matches!(self.path.0.last(), Some(PathSegment::Entry(..)));
        if self.live.is_null() && !is_entry {
            add_leaves(self.wanted, &mut self.path.clone(), &mut found);
        }
        found
    }
}

/// The path of the first field in `wanted` that is missing or different in `live`.
#[must_use]
pub fn first_difference(wanted: &Value, live: &Value) -> Option<String> {
    difference(wanted, live).map(|found| found.field)
}

/// The same with the manager that wrote it.
pub(crate) fn difference(wanted: &Value, live: &Value) -> Option<Difference> {
    let found = walk(wanted, live, &mut Path::default(), &mut ControlFlow::Break);
    let FieldDifference { path, .. } = found.break_value()?;
    Some(Difference { field: path.to_string(), by: owner::of(live, &path) })
}

/// All fields in `wanted` that are missing or different in `live`, in path order. A missing map is
/// one difference.
pub(crate) fn differences<'a>(wanted: &'a Value, live: &'a Value) -> Vec<FieldDifference<'a>> {
    let mut all = Vec::new();
    let _all_seen: ControlFlow<()> = walk(wanted, live, &mut Path::default(), &mut |found| {
        all.push(found);
        ControlFlow::Continue(())
    });
    all
}

const NOTHING: &Value = &Value::Null;

/// Calls `found` with each difference, until it breaks.
fn walk<'a, B>(
    wanted: &'a Value,
    live: &'a Value,
    path: &mut Path<'a>,
    found: &mut impl FnMut(FieldDifference<'a>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let same = match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            for (name, value) in wanted {
                let below = live.get(name).unwrap_or(NOTHING);
                path.inside(PathSegment::Field(name), |path| walk(value, below, path, found))?;
            }
            return ControlFlow::Continue(());
        }
        // Finalizers are a set with many writers: foreign ones are no difference.
        (Value::Array(wanted), Value::Array(live)) if path.is(&["metadata", "finalizers"]) => {
            wanted.iter().all(|finalizer| live.contains(finalizer))
        }
        (Value::Array(ours), Value::Array(theirs))
            if is_named(ours) || ours.len() == theirs.len() =>
        {
            return walk_entries(ours, theirs, path, found);
        }
        // An empty object or list and none at all are the same to the API server.
        (wanted, Value::Null) => is_empty(wanted),
        (wanted, live) => wanted == live,
    };
    if same {
        ControlFlow::Continue(())
    } else {
        found(FieldDifference { path: path.clone(), wanted, live })
    }
}

/// Entries with names are matched by name, because others may add entries in between; other lists
/// must match entry by entry.
fn walk_entries<'a, B>(
    wanted: &'a [Value],
    live: &'a [Value],
    path: &mut Path<'a>,
    found: &mut impl FnMut(FieldDifference<'a>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let named = is_named(wanted);
    for (index, entry) in wanted.iter().enumerate() {
        let below = if named {
            live.iter().find(|other| other["name"] == entry["name"])
        } else {
            live.get(index)
        };
        let below = below.unwrap_or(NOTHING);
        path.inside(PathSegment::Entry(index, entry), |path| walk(entry, below, path, found))?;
    }
    ControlFlow::Continue(())
}

fn add_leaves<'a>(wanted: &'a Value, path: &mut Path<'a>, found: &mut Vec<FieldDifference<'a>>) {
    match wanted {
        Value::Object(fields) => {
            for (name, value) in fields {
                path.inside(PathSegment::Field(name), |path| add_leaves(value, path, found));
            }
        }
        Value::Array(list) if is_named(list) => {
            // An entry is one leaf: without some of its fields it would be invalid.
            for (index, entry) in list.iter().enumerate() {
                let mut path = path.clone();
                path.0.push(PathSegment::Entry(index, entry));
                found.push(FieldDifference { path, wanted: entry, live: NOTHING });
            }
        }
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            if !is_empty(wanted) {
                found.push(FieldDifference { path: path.clone(), wanted, live: NOTHING });
            }
        }
    }
}

fn is_named(list: &[Value]) -> bool {
    !list.is_empty() && list.iter().all(|entry| entry["name"].is_string())
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

    fn fields(wanted: &Value, live: &Value) -> Vec<(String, Value, Value)> {
        let found = differences(wanted, live).into_iter();
        found.map(|it| (it.path.to_string(), it.wanted.clone(), it.live.clone())).collect()
    }

    #[test]
    fn every_difference_is_found_with_both_values() {
        let container = |image: &str| json!([{"name": "main", "image": image}]);
        let wanted = json!({"c": container("x"), "args": ["a", "b"], "env": [{"name": "A"}],
                            "replicas": 2, "same": 1});
        let live = json!({"c": container("y"), "args": ["a"], "env": [], "same": 1, "more": 9});
        assert_eq!(
            fields(&wanted, &live),
            [
                ("args".to_owned(), json!(["a", "b"]), json!(["a"])),
                ("c.main.image".to_owned(), json!("x"), json!("y")),
                ("env.A".to_owned(), json!({"name": "A"}), Value::Null),
                ("replicas".to_owned(), json!(2), Value::Null),
            ]
        );
        assert_eq!(fields(&wanted, &wanted), []);
    }

    #[test]
    fn a_missing_map_has_values_and_named_entries_as_leaves() {
        let wanted = json!({"spec": {"replicas": 2, "none": {}, "args": ["a"],
                                     "pod": {"c": [{"name": "main", "image": "x"}]}}});
        let empty = json!({});
        let found = differences(&wanted, &empty);
        let [whole] = found.as_slice() else { unreachable!("one difference") };
        assert_eq!(whole.path.to_string(), "spec");
        let leaves: Vec<String> = whole.leaves().iter().map(|it| it.path.to_string()).collect();
        assert_eq!(leaves, ["spec.args", "spec.pod.c.main", "spec.replicas"]);
        let other = json!({"spec": 1});
        assert!(
            differences(&wanted, &other)[0].leaves().is_empty(),
            "it is there, as another type"
        );
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
