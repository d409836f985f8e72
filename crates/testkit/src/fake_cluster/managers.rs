//! The record of who wrote which field, as far as Trueup reads it: what others wrote and still
//! stands. What Trueup itself wrote is left out of it at the edge, so it is not kept here at all.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::apply::{is_atomic, is_keyed, keys_of};

/// The way to a leaf, in the spelling of the record: `f:` a field, `k:` an entry, `v:` a value.
type Way = Vec<String>;

/// What nobody owns.
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

/// The managers of one object, each with its leaves and the time of its last write.
#[derive(Debug, Clone, Default)]
pub(super) struct Managers(BTreeMap<&'static str, (String, BTreeSet<Way>)>);

impl Managers {
    /// Takes a write into account: what changed belongs to the writer and to nobody else any more.
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
            owned.retain(|way| after.contains_key(way) && after.get(way) == before.get(way));
        }
        if let Some(writer) = writer {
            let changed = after.into_iter().filter(|(way, value)| before.get(way) != Some(value));
            let (time, owned) = self.0.entry(writer).or_default();
            now.clone_into(time);
            owned.extend(changed.map(|(way, _)| way));
        }
        self.0.retain(|_, (_, owned)| !owned.is_empty());
    }

    /// Writes the record into the object.
    pub(super) fn show(&self, object: &mut Value) {
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
            return;
        };
        let entry = |(manager, (time, owned)): (&&str, &(String, BTreeSet<Way>))| {
            let mut fields = json!({});
            for way in owned {
                way.iter().fold(&mut fields, |place, step| {
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
fn leaves(object: &Value) -> BTreeMap<Way, Value> {
    let mut found = BTreeMap::new();
    let Some(fields) = object.as_object() else { return found };
    for (name, value) in fields.iter().filter(|(name, _)| !is_own(name)) {
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

fn is_own(name: &str) -> bool {
    ["apiVersion", "kind", "status"].contains(&name)
}

fn walk(value: &Value, field: &str, way: &mut Way, found: &mut BTreeMap<Way, Value>) {
    match value {
        Value::Object(map) if !is_atomic(field) && !map.is_empty() => {
            for (name, value) in map {
                way.push(format!("f:{name}"));
                walk(value, name, way, found);
                way.pop();
            }
        }
        Value::Array(list) if is_keyed(field, list) => {
            for entry in list {
                way.push(entry_key(field, entry));
                way.push(".".to_owned());
                found.insert(way.clone(), Value::Null);
                way.pop();
                walk(entry, "", way, found);
                way.pop();
            }
        }
        leaf => {
            found.insert(way.clone(), leaf.clone());
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
