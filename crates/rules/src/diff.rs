//! Whether a live object carries everything that was applied.
//!
//! The server and other writers may add fields; only what we said is compared. A field that we
//! stopped saying is noticed through the digest annotation instead.

use serde_json::Value;

/// The path of the first field in `wanted` that `live` lacks or has otherwise.
#[must_use]
pub fn first_difference(wanted: &Value, live: &Value) -> Option<String> {
    let mut path = String::new();
    differs(wanted, live, &mut path).then_some(path)
}

fn differs(wanted: &Value, live: &Value, path: &mut String) -> bool {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => wanted.iter().any(|(name, value)| {
            descend(path, name, |path| differs(value, live.get(name).unwrap_or(&Value::Null), path))
        }),
        // Finalizers are a set that many write: others' beside ours are no difference.
        (Value::Array(wanted), Value::Array(live)) if path == "metadata.finalizers" => {
            !wanted.iter().all(|finalizer| live.contains(finalizer))
        }
        (Value::Array(wanted), Value::Array(live)) => list_differs(wanted, live, path),
        // An empty object or list and none at all are the same to the API server.
        (wanted, Value::Null) => !is_empty(wanted),
        (wanted, live) => wanted != live,
    }
}

/// Lists whose entries have names are matched by name, so that an injected sidecar is no
/// difference; other lists must agree entry by entry.
fn list_differs(wanted: &[Value], live: &[Value], path: &mut String) -> bool {
    let named = wanted.iter().all(|entry| entry["name"].is_string()) && !wanted.is_empty();
    if !named && wanted.len() != live.len() {
        return true;
    }
    wanted.iter().enumerate().any(|(index, entry)| {
        let found = if named {
            live.iter().find(|other| other["name"] == entry["name"])
        } else {
            live.get(index)
        };
        let label = entry["name"].as_str().map_or_else(|| index.to_string(), str::to_owned);
        descend(path, &label, |path| differs(entry, found.unwrap_or(&Value::Null), path))
    })
}

/// Keeps the step in the path only when a difference was found below it.
fn descend(path: &mut String, step: &str, below: impl FnOnce(&mut String) -> bool) -> bool {
    let length = path.len();
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(step);
    let differs = below(path);
    if !differs {
        path.truncate(length);
    }
    differs
}

fn is_empty(value: &Value) -> bool {
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
    fn what_the_server_adds_is_no_difference() {
        let wanted = json!({"spec": {"replicas": 2, "ports": [{"name": "http", "port": 80}]}});
        let live = json!({
            "metadata": {"uid": "1"},
            "spec": {"replicas": 2, "paused": false,
                     "ports": [{"name": "side", "port": 9}, {"name": "http", "port": 80, "protocol": "TCP"}]},
        });
        assert_eq!(first_difference(&wanted, &live), None);
    }

    #[test]
    fn what_differs_is_named_by_its_path() {
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
        let held = |by: &[&str]| json!({"metadata": {"finalizers": by}});
        assert_eq!(first_difference(&wanted, &held(&["theirs", "ours"])), None);
        assert_eq!(
            first_difference(&wanted, &held(&["theirs"])).as_deref(),
            Some("metadata.finalizers")
        );
    }

    #[test]
    fn empty_and_absent_are_the_same() {
        assert_eq!(first_difference(&json!({"data": {}, "a": []}), &json!({})), None);
    }
}
