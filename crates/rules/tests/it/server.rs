//! A minimal API server for plans: uids, resource versions, finalizers and garbage collection.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trueup_model::key::{Kind, ResourceKey};

const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";

#[derive(Debug, Clone, Default)]
pub(crate) struct Server {
    pub(crate) objects: BTreeMap<ResourceKey, Value>,
    pub(crate) pods: Vec<Value>,
    /// Whether the namespace is terminating.
    pub(crate) namespace_ending: bool,
    /// Nodes by name; empty if nodes may not be read.
    pub(crate) nodes: BTreeMap<String, Value>,
    /// What our field manager applied last, so that fields it drops are removed.
    applied: BTreeMap<ResourceKey, Value>,
    version: u64,
    created: u64,
}

impl Server {
    /// Server-side apply by our field manager.
    pub(crate) fn apply(&mut self, key: &ResourceKey, object: &Value) {
        let before = self.objects.get(key).cloned();
        let object = &self.unguarded(key, object);
        let mut after = before.clone().unwrap_or_else(|| json!({}));
        if let Some(applied) = self.applied.get(key) {
            drop_unapplied(&mut after, applied, object, "");
        }
        overlay(&mut after, object, "");
        let fixed = match key.kind {
            Kind::Job => "template",
            Kind::StatefulSet => "volumeClaimTemplates",
            _ => "",
        };
        if let Some(before) = &before {
            assert_eq!(before["spec"][fixed], after["spec"][fixed], "{key} is immutable");
        }
        self.applied.insert(key.clone(), object.clone());
        self.store(key, before.as_ref(), after);
    }

    /// Checks and removes the uid and version of an applied object: they are preconditions.
    fn unguarded(&self, key: &ResourceKey, object: &Value) -> Value {
        let mut object = object.clone();
        for guard in ["uid", "resourceVersion"] {
            let expected = object["metadata"].as_object_mut().and_then(|it| it.remove(guard));
            if let Some(expected) = expected {
                assert_eq!(self.objects[key]["metadata"][guard], expected, "{key} has changed");
            }
        }
        object
    }

    /// Another writer changes or creates an object.
    pub(crate) fn edit(&mut self, key: &ResourceKey, change: impl FnOnce(&mut Value)) {
        let before = self.objects.get(key).cloned();
        let mut after = before
            .clone()
            .unwrap_or_else(|| json!({"kind": key.kind.as_str(), "metadata": {"name": key.name}}));
        change(&mut after);
        // Fields that another writer changed are no longer ours.
        if let Some(applied) = self.applied.get_mut(key) {
            *applied = unchanged_fields(applied, &after, "").unwrap_or_default();
        }
        self.store(key, before.as_ref(), after);
        self.finish(key);
    }

    /// A merge patch with uid and version as preconditions.
    pub(crate) fn guarded_patch(&mut self, key: &ResourceKey, patch: &Value) {
        let metadata = &self.objects[key]["metadata"];
        for guard in ["uid", "resourceVersion"] {
            assert_eq!(metadata[guard], patch["metadata"][guard], "{key} has changed");
        }
        self.edit(key, |object| merge_patch(object, patch));
    }

    /// A delete with uid and version as preconditions.
    pub(crate) fn guarded_delete(&mut self, key: &ResourceKey, uid: &str, version: &str) {
        let metadata = &self.objects[key]["metadata"];
        assert_eq!(metadata["uid"], uid, "{key} has another uid");
        assert_eq!(metadata["resourceVersion"], version, "{key} has changed");
        self.delete(key);
    }

    /// Deletes an object; with finalizers, it stays until they are removed.
    pub(crate) fn delete(&mut self, key: &ResourceKey) {
        if !self.objects.contains_key(key) {
            return;
        }
        self.edit(key, |object| {
            object["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
        });
    }

    /// A patch of the finalizers, with the version as precondition.
    pub(crate) fn release(&mut self, key: &ResourceKey, version: &str, finalizers: &[String]) {
        let metadata = &self.objects[key]["metadata"];
        assert_eq!(metadata["resourceVersion"], version, "{key} has changed");
        self.edit(key, |object| {
            object["metadata"]["finalizers"] = json!(finalizers);
        });
    }

    /// The controllers catch up: pods match the workload and are ready, unused claims are deleted.
    pub(crate) fn catch_up(&mut self) {
        let workload = self
            .objects
            .iter()
            .find(|(key, object)| key.kind.is_workload() && !is_terminating(object))
            .map(|(key, object)| (key.clone(), object.clone()));
        let Some((key, object)) = workload else {
            self.pods.clear();
            self.delete_unused_claims();
            return;
        };
        if matches!(key.kind, Kind::CronJob | Kind::Job) {
            self.run(&key, object["spec"]["suspend"] == true);
            return;
        }
        let replicas = object["spec"]["replicas"].as_u64().unwrap_or(1);
        let generation = object["metadata"]["generation"].clone();
        self.pods =
            (0..replicas).map(|ordinal| ready_pod(&format!("{}-{ordinal}", key.name))).collect();
        self.edit(&key, |object| {
            object["status"] = json!({
                "observedGeneration": generation, "replicas": replicas,
                "updatedReplicas": replicas, "readyReplicas": replicas,
            });
        });
    }

    /// Completes a Job, or a run of a CronJob; a suspended one has no pods.
    fn run(&mut self, key: &ResourceKey, held: bool) {
        let finished = |object: &Value| object["status"]["conditions"][0]["type"] == "Complete";
        let done = finished(&self.objects[key]);
        if held && !done {
            self.pods.clear();
        } else {
            self.pods = vec![ended_pod(&format!("{}-0", key.name))];
        }
        let status = match key.kind {
            Kind::Job if held && !done => {
                json!({"conditions": [{"type": "Suspended", "status": "True"}]})
            }
            Kind::Job => json!({"conditions": [{"type": "Complete", "status": "True"}]}),
            _ => json!({"lastScheduleTime": "2030-01-01T00:00:00Z",
                        "lastSuccessfulTime": "2030-01-01T00:00:05Z"}),
        };
        self.edit(key, |object| object["status"] = status);
    }

    /// Deletes the namespace: everything in it is deleted, except for objects with finalizers.
    pub(crate) fn delete_namespace(&mut self) {
        self.namespace_ending = true;
        let keys: Vec<_> = self.objects.keys().cloned().collect();
        for key in keys {
            self.delete(&key);
        }
    }

    fn delete_unused_claims(&mut self) {
        let claims: Vec<_> = self
            .objects
            .iter()
            .filter(|(key, object)| {
                key.kind == Kind::PersistentVolumeClaim && is_terminating(object)
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in claims {
            self.edit(&key, |claim| claim["metadata"]["finalizers"] = json!([]));
        }
    }

    fn store(&mut self, key: &ResourceKey, before: Option<&Value>, mut after: Value) {
        if before == Some(&after) {
            return;
        }
        self.version += 1;
        let generation = |object: &Value| object["metadata"]["generation"].as_i64().unwrap_or(0);
        let spec_changed = before.is_none_or(|before| before["spec"] != after["spec"]);
        let number = before.map_or(0, generation) + i64::from(spec_changed);
        if before.is_none() {
            self.created += 1;
            after["metadata"]["uid"] = json!(format!("uid-{}", self.created));
            complete(key.kind, &mut after);
        }
        after["metadata"]["generation"] = json!(number);
        after["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(key.clone(), after);
    }

    /// Removes a deleted object without finalizers, and then its orphaned dependents.
    fn finish(&mut self, key: &ResourceKey) {
        let held = |object: &Value| {
            object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
        };
        if !self.objects.get(key).is_some_and(|object| is_terminating(object) && !held(object)) {
            return;
        }
        self.applied.remove(key);
        let gone = self.objects.remove(key).unwrap_or_default();
        let is_there = |uid: &Value| self.objects.values().any(|it| it["metadata"]["uid"] == *uid);
        let orphans: Vec<_> = self
            .objects
            .iter()
            .filter(|(_, object)| {
                object["metadata"]["ownerReferences"].as_array().is_some_and(|owners| {
                    owners.iter().any(|owner| owner["uid"] == gone["metadata"]["uid"])
                        && !owners.iter().any(|owner| is_there(&owner["uid"]))
                })
            })
            .map(|(key, _)| key.clone())
            .collect();
        for orphan in orphans {
            self.delete(&orphan);
        }
    }
}

fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// The defaults that the server adds to a new object.
fn complete(kind: Kind, object: &mut Value) {
    match kind {
        Kind::Deployment => object["spec"]["progressDeadlineSeconds"] = json!(600),
        // The server labels the pods of a Job for its selector.
        Kind::Job => {
            object["spec"]["template"]["metadata"]["labels"]["job-name"] =
                object["metadata"]["name"].clone();
        }
        Kind::Service => {
            object["spec"]["clusterIP"] = json!("10.0.0.7");
            if object["spec"]["type"].is_null() {
                object["spec"]["type"] = json!("ClusterIP");
            }
        }
        Kind::PersistentVolumeClaim => {
            object["metadata"]["finalizers"] = json!([CLAIM_PROTECTION]);
            object["status"] = json!({"phase": "Bound"});
        }
        _ => {}
    }
}

fn ready_pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": format!("pod-{name}")},
        "spec": {"nodeName": "simulated-1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn ended_pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": format!("pod-{name}")},
        "spec": {"nodeName": "simulated-1"},
        "status": {"phase": "Succeeded"},
    })
}

/// The merge keys of a list, which may have foreign entries. Other lists are replaced as a whole.
fn merge_keys(field: &str) -> &'static [&'static str] {
    match field {
        "containers" | "initContainers" | "env" | "volumes" => &["name"],
        "ports" => &["port", "containerPort", "protocol"],
        "volumeMounts" => &["mountPath"],
        "ownerReferences" => &["uid"],
        _ => &[],
    }
}

fn same(field: &str, one: &Value, other: &Value) -> bool {
    let tcp = json!("TCP");
    let read = |entry: &Value, name: &str| match entry.get(name) {
        None if name == "protocol" => tcp.clone(),
        found => found.cloned().unwrap_or_default(),
    };
    merge_keys(field).iter().all(|name| read(one, name) == read(other, name))
}

fn overlay(current: &mut Value, applied_value: &Value, field: &str) {
    match (current, applied_value) {
        (Value::Object(current), Value::Object(applied_value)) => {
            for (name, value) in applied_value {
                let slot = current.entry(name).or_insert(Value::Null);
                match (slot, value) {
                    (Value::Array(held), Value::Array(applied_value)) if name == "finalizers" => {
                        let missing: Vec<_> = applied_value
                            .iter()
                            .filter(|one| !held.contains(one))
                            .cloned()
                            .collect();
                        held.extend(missing);
                    }
                    (slot, value) => overlay(slot, value, name),
                }
            }
        }
        (Value::Array(current), Value::Array(applied_value)) if !merge_keys(field).is_empty() => {
            for entry in applied_value {
                let found = current.iter_mut().find(|other| same(field, other, entry));
                match found {
                    Some(found) => overlay(found, entry, ""),
                    None => current.push(entry.clone()),
                }
            }
        }
        (current, applied_value) => *current = applied_value.clone(),
    }
}

fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            target.as_object_mut().expect("an object").remove(name);
        } else {
            merge_patch(&mut target[name], value);
        }
    }
}

/// The applied fields that are still unchanged.
fn unchanged_fields(applied_value: &Value, live: &Value, field: &str) -> Option<Value> {
    match (applied_value, live) {
        (Value::Object(applied_value), Value::Object(live)) => {
            let kept = applied_value.iter().filter_map(|(name, value)| {
                Some((name.clone(), unchanged_fields(value, live.get(name)?, name)?))
            });
            Some(Value::Object(kept.collect()))
        }
        (Value::Array(applied_value), Value::Array(live)) if !merge_keys(field).is_empty() => {
            let kept = applied_value.iter().filter_map(|entry| {
                unchanged_fields(entry, live.iter().find(|other| same(field, other, entry))?, "")
            });
            Some(Value::Array(kept.collect()))
        }
        (Value::Array(applied_value), Value::Array(live)) if field == "finalizers" => Some(
            Value::Array(applied_value.iter().filter(|one| live.contains(one)).cloned().collect()),
        ),
        (applied_value, live) => (applied_value == live).then(|| applied_value.clone()),
    }
}

/// Removes fields that were applied before and are not applied now.
fn drop_unapplied(current: &mut Value, before: &Value, now: &Value, field: &str) {
    match (current, before) {
        (Value::Object(current), Value::Object(before)) => {
            for (name, value) in before {
                match (now.get(name), current.get_mut(name)) {
                    (Some(now), Some(current)) => drop_unapplied(current, value, now, name),
                    (None, Some(_)) => {
                        current.remove(name);
                    }
                    (_, None) => {}
                }
            }
        }
        (Value::Array(current), Value::Array(before)) if !merge_keys(field).is_empty() => {
            let now_applied = now.as_array().map_or(&[][..], Vec::as_slice);
            for entry in current.iter_mut() {
                let find = |list: &[Value]| list.iter().find(|it| same(field, it, entry)).cloned();
                if let (Some(before), Some(now)) = (find(before), find(now_applied)) {
                    drop_unapplied(entry, &before, &now, "");
                }
            }
            let dropped = |entry: &Value| {
                let named = |list: &[Value]| list.iter().any(|other| same(field, other, entry));
                named(before) && !now.as_array().is_some_and(|now| named(now))
            };
            current.retain(|entry| !dropped(entry));
        }
        _ => {}
    }
}
