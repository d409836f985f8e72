//! `managedFields`, as far as Trueup reads it: the fields that other writers own.
//!
//! The client drops Trueup's own entry, so it is not kept here.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::apply::{is_atomic, is_keyed, keys_of};

/// The path of a leaf as in `fieldsV1`: `f:` a field, `k:` a keyed entry, `v:` a set value.
type FieldPath = Vec<String>;

/// Metadata fields that have no owner.
const UNOWNED: [&str; 8] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "managedFields",
];

/// The managers of one object, each with the time of its last write and its leaves.
#[derive(Debug, Clone, Default)]
pub(super) struct Managers(BTreeMap<&'static str, (String, BTreeSet<FieldPath>)>);

impl Managers {
    /// Records a write: the writer alone owns the changed fields now.
    pub(super) fn note(
        &mut self,
        before: Option<&Value>,
        after: &Value,
        writer: Option<&'static str>,
        now: &str,
    ) {
        if self.0.is_empty() && writer.is_none() {
            return;
        }
        let (before, after) = (before.map(leaves).unwrap_or_default(), leaves(after));
        for (_, owned) in self.0.values_mut() {
            owned.retain(|path| after.contains_key(path) && after.get(path) == before.get(path));
        }
        if let Some(writer) = writer {
            let changed = after.into_iter().filter(|(path, value)| before.get(path) != Some(value));
            let (time, owned) = self.0.entry(writer).or_default();
            now.clone_into(time);
            owned.extend(changed.map(|(path, _)| path));
        }
        self.0.retain(|_, (_, owned)| !owned.is_empty());
    }

    /// Writes `managedFields` into the object.
    pub(super) fn show(&self, object: &mut Value) {
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
            return;
        };
        let entry = |(manager, (time, owned)): (&&str, &(String, BTreeSet<FieldPath>))| {
            let mut fields = json!({});
            for path in owned {
                path.iter().fold(&mut fields, |place, step| {
                    let slot = &mut place[step.as_str()];
                    if slot.is_null() {
                        *slot = json!({});
                    }
                    slot
                });
            }
            json!({ "manager": manager, "time": time, "fieldsV1": fields })
        };
        metadata.remove("managedFields");
        if !self.0.is_empty() {
            metadata.insert("managedFields".to_owned(), self.0.iter().map(entry).collect());
        }
    }
}

/// Every leaf of an object with its value.
fn leaves(object: &Value) -> BTreeMap<FieldPath, Value> {
    let mut found = BTreeMap::new();
    let Some(fields) = object.as_object() else { return found };
    for (name, value) in fields.iter().filter(|(name, _)| !is_untracked(name)) {
        match (name.as_str(), value) {
            ("metadata", Value::Object(metadata)) => {
                let mut owned = metadata.clone();
                owned.retain(|name, _| !UNOWNED.contains(&name.as_str()));
                walk(&Value::Object(owned), name, &mut vec![format!("f:{name}")], &mut found);
            }
            _ => walk(value, name, &mut vec![format!("f:{name}")], &mut found),
        }
    }
    found
}

fn is_untracked(name: &str) -> bool {
    ["apiVersion", "kind", "status"].contains(&name)
}

fn walk(value: &Value, field: &str, path: &mut FieldPath, found: &mut BTreeMap<FieldPath, Value>) {
    match value {
        Value::Object(map) if !is_atomic(field) && !map.is_empty() => {
            for (name, value) in map {
                path.push(format!("f:{name}"));
                walk(value, name, path, found);
                path.pop();
            }
        }
        Value::Array(list) if is_keyed(field, list) => {
            for entry in list {
                path.push(entry_key(field, entry));
                path.push(".".to_owned());
                found.insert(path.clone(), Value::Null);
                path.pop();
                walk(entry, "", path, found);
                path.pop();
            }
        }
        leaf => {
            found.insert(path.clone(), leaf.clone());
        }
    }
}

fn entry_key(field: &str, entry: &Value) -> String {
    let known: Map<String, Value> = keys_of(field)
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), entry.get(*name)?.clone())))
        .collect();
    if known.is_empty() { format!("v:{entry}") } else { format!("k:{}", Value::Object(known)) }
}
