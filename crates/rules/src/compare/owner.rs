//! Who wrote a field, according to `metadata.managedFields`.
//!
//! An observed object has only the entries of other managers (see `cluster`), so a manager that is
//! found here is not Trueup.

use serde_json::Value;

use crate::compare::path::{Path, PathSegment};

/// The manager that wrote this path, or something above or below it; of several, the last one.
pub(crate) fn of(live: &Value, path: &Path<'_>) -> Option<String> {
    live["metadata"]["managedFields"]
        .as_array()?
        .iter()
        .filter(|entry| owns(&entry["fieldsV1"], &path.0))
        .max_by_key(|entry| entry["time"].as_str().unwrap_or_default())
        .and_then(|entry| entry["manager"].as_str().map(str::to_owned))
}

/// Whether this tree of fields contains the path. A leaf owns everything below it.
fn owns(fields: &Value, steps: &[PathSegment<'_>]) -> bool {
    let (Some(fields), Some((step, below))) = (fields.as_object(), steps.split_first()) else {
        return fields.is_object();
    };
    if fields.is_empty() {
        return true;
    }
    match step {
        PathSegment::Field(name) => {
            fields.get(&format!("f:{name}")).is_some_and(|found| owns(found, below))
        }
        PathSegment::Entry(_, entry) => {
            fields.iter().any(|(key, found)| is_entry(key, entry) && owns(found, below))
        }
    }
}

/// Whether a key of the tree means this entry: `k:` with its merge keys, or `v:` with its value.
fn is_entry(key: &str, entry: &Value) -> bool {
    if let Some(known_by) = key.strip_prefix("k:") {
        let known_by: Value = serde_json::from_str(known_by).unwrap_or_default();
        return known_by
            .as_object()
            .is_some_and(|names| names.iter().all(|(name, value)| entry[name] == *value));
    }
    key.strip_prefix("v:")
        .is_some_and(|value| serde_json::from_str::<Value>(value).is_ok_and(|it| it == *entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_field_and_an_entry_have_the_manager_that_wrote_them() {
        let live = json!({"metadata": {"managedFields": [
            {"manager": "kubectl-edit", "time": "2030-01-01T00:00:00Z", "fieldsV1": {"f:spec": {
                "f:replicas": {},
                "f:containers": {"k:{\"name\":\"mesh\"}": {".": {}, "f:image": {}}}}}},
            {"manager": "kubectl-scale", "time": "2030-01-01T00:00:09Z",
             "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        ]}});
        let mesh = json!({"name": "mesh"});
        let main = json!({"name": "main"});
        let spec = PathSegment::Field("spec");
        let containers = PathSegment::Field("containers");
        for (steps, who) in [
            (vec![spec, PathSegment::Field("replicas")], Some("kubectl-scale")),
            (vec![spec, containers, PathSegment::Entry(1, &mesh)], Some("kubectl-edit")),
            (vec![spec, containers, PathSegment::Entry(0, &main)], None),
            (vec![spec, PathSegment::Field("paused")], None),
            (
                vec![spec, PathSegment::Field("replicas"), PathSegment::Field("below")],
                Some("kubectl-scale"),
            ),
        ] {
            let path = Path(steps);
            assert_eq!(of(&live, &path).as_deref(), who, "{path}");
        }
    }
}
