//! A normalised snapshot of a cluster, to compare two runs.

use std::collections::BTreeMap;

use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};

use super::state::State;

/// Metadata fields that differ between equivalent runs.
const PER_RUN: &[&str] = &[
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "managedFields",
];

/// Every object by the text of its key, without uids, versions and times.
pub(super) fn take(state: &State) -> BTreeMap<String, Value> {
    state.all().map(|(key, object)| normal(key, object)).collect()
}

fn normal(key: &ResourceKey, object: &Value) -> (String, Value) {
    let mut object = object.clone();
    let mut name = key.to_string();
    let is_terminating = object.pointer("/metadata/deletionTimestamp").is_some();
    if key.kind == Kind::PersistentVolume {
        // Its name contains a uid, so it is identified by its claim.
        let claim = &object["spec"]["claimRef"];
        name = format!(
            "{}/of {}/{}",
            key.kind,
            claim["namespace"].as_str().unwrap_or_default(),
            claim["name"].as_str().unwrap_or_default()
        );
        forget(object.pointer_mut("/metadata"), &["name"]);
        forget(object.pointer_mut("/spec/claimRef"), PER_RUN);
    }
    if key.kind == Kind::PersistentVolumeClaim {
        forget(object.pointer_mut("/spec"), &["volumeName"]);
    }
    forget(object.pointer_mut("/metadata"), PER_RUN);
    let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    for owner in owners.into_iter().flatten() {
        forget(Some(owner), PER_RUN);
    }
    forget(object.pointer_mut("/status"), &["observedGeneration"]);
    if let Some(status) = object.get_mut("status") {
        forget_times(status);
    }
    if is_terminating {
        name.push_str(" (being deleted)");
    }
    (name, object)
}

const TIMES: &[&str] = &["startTime", "lastTransitionTime", "startedAt", "finishedAt"];

fn forget_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !TIMES.contains(&name.as_str()));
            fields.values_mut().for_each(forget_times);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_times),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn forget(object: Option<&mut Value>, fields: &[&str]) {
    if let Some(object) = object.and_then(Value::as_object_mut) {
        object.retain(|name, _| !fields.contains(&name.as_str()));
    }
}
