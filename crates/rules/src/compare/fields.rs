//! Field-by-field differences for users: named list entries are matched and shown by name.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// One field that differs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Apart {
    /// The path: names of fields and of entries.
    pub(crate) steps: Vec<String>,
    /// The old value.
    pub(crate) before: Option<Value>,
    /// The new value.
    pub(crate) after: Option<Value>,
}

impl Apart {
    /// The path as shown to users: `spec.template.spec.containers.main.image`.
    pub(crate) fn path(&self) -> String {
        self.steps.join(".")
    }
}

/// Everything that differs, in path order.
pub(crate) fn compare(old: &Value, new: &Value) -> Vec<Apart> {
    let mut found = Vec::new();
    walk(&mut found, &mut Vec::new(), old, new);
    found
}

/// The value at such a path.
pub(crate) fn at<'a>(value: &'a Value, steps: &[String]) -> Option<&'a Value> {
    steps.iter().try_fold(value, |value, step| match value {
        Value::Object(fields) => fields.get(step),
        Value::Array(entries) => entries.iter().find(|entry| entry["name"] == **step),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

fn walk(found: &mut Vec<Apart>, steps: &mut Vec<String>, old: &Value, new: &Value) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                let entry = |side: &Map<String, Value>| side.get(name).cloned().unwrap_or_default();
                steps.push(name.clone());
                walk(found, steps, &entry(old), &entry(new));
                steps.pop();
            }
        }
        (Value::Array(old), Value::Array(new)) if is_named(old) && is_named(new) => {
            let by_name = |side: &[Value]| -> Map<String, Value> {
                let name = |entry: &Value| entry["name"].as_str().unwrap_or_default().to_owned();
                side.iter().map(|entry| (name(entry), entry.clone())).collect()
            };
            walk(found, steps, &by_name(old).into(), &by_name(new).into());
        }
        (old, new) if old != new => {
            let side = |value: &Value| (!value.is_null()).then(|| value.clone());
            found.push(Apart { steps: steps.clone(), before: side(old), after: side(new) });
        }
        (_, _) => {}
    }
}

fn is_named(list: &[Value]) -> bool {
    !list.is_empty() && list.iter().all(|entry| entry["name"].is_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_leads_to_the_difference() {
        let old = json!({"c": [{"name": "a", "x.y/z": 1}, {"name": "b"}], "args": ["1", "2"]});
        let new = json!({"c": [{"name": "b"}, {"name": "a", "x.y/z": 2}], "args": ["1"]});
        let found = compare(&old, &new);
        let paths: Vec<String> = found.iter().map(Apart::path).collect();
        assert_eq!(paths, ["args", "c.a.x.y/z"]);
        for apart in found {
            assert_eq!(at(&old, &apart.steps).cloned(), apart.before);
            assert_eq!(at(&new, &apart.steps).cloned(), apart.after);
        }
        assert_eq!(at(&old, &["c".to_owned(), "none".to_owned()]), None);
    }
}
