//! The controllers of Deployments and StatefulSets: their pods, claims and status.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value, json};
use trueup_model::key::{Kind, ResourceKey};

use super::pods;
use super::state::State;

/// Labels with the hash of a pod's template.
const DEPLOYMENT_HASH: &str = "pod-template-hash";
const STATEFUL_HASH: &str = "controller-revision-hash";

/// Updates a workload's pods and status to its spec.
pub(super) fn reconcile(state: &mut State, key: &ResourceKey) {
    let Some(workload) = state.get(key).cloned() else {
        return;
    };
    let wanted = workload.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
    let hash = hash_of(&workload["spec"]["template"]);
    if workload.pointer("/metadata/deletionTimestamp").is_none() && takes_content(state, key) {
        let desired = match key.kind {
            Kind::StatefulSet => stateful(state, key, &workload, wanted, &hash),
            _ => deployed(key, &workload, wanted, &hash),
        };
        remove_others(state, key, &workload, &desired, &hash);
        for (pod, object) in desired {
            if state.get(&pod).is_some() {
                continue;
            }
            match over_quota(state, &pod) {
                None => state.edit(&pod, |new| merge_into(new, object)),
                Some(error) => warn(state, key, &pod, &error),
            }
        }
    }
    let status = status(state, key, &workload, wanted, &hash);
    state.edit(key, |object| object["status"] = status);
}

/// The error if a quota of its namespace does not allow another pod.
fn over_quota(state: &State, pod: &ResourceKey) -> Option<String> {
    let used = state.in_namespace(Kind::Pod, &pod.namespace).count();
    state.in_namespace(Kind::ResourceQuota, &pod.namespace).find_map(|(quota, object)| {
        let most: usize = object["spec"]["hard"]["pods"].as_str()?.parse().ok()?;
        (used >= most).then(|| {
            format!(
                "pods \"{}\" is forbidden: exceeded quota: {}, requested: pods=1, used: pods={used}, \
                 limited: pods={most}",
                pod.name, quota.name
            )
        })
    })
}

/// Emits an event for a StatefulSet; a Deployment reports it in its [`status`].
fn warn(state: &mut State, key: &ResourceKey, pod: &ResourceKey, error: &str) {
    if key.kind == Kind::StatefulSet {
        let (pod, set, now) = (&pod.name, &key.name, state.now());
        let message = format!("create Pod {pod} in StatefulSet {set} failed error: {error}");
        state.warn(key, "FailedCreate", &message, &now);
    }
}

fn takes_content(state: &State, key: &ResourceKey) -> bool {
    let namespace = ResourceKey::new(Kind::Namespace, "", &key.namespace);
    state
        .get(&namespace)
        .is_some_and(|object| object.pointer("/metadata/deletionTimestamp").is_none())
}

fn deployed(
    key: &ResourceKey,
    workload: &Value,
    wanted: u64,
    hash: &str,
) -> Vec<(ResourceKey, Value)> {
    let pod = pods::running(key, workload, &[(DEPLOYMENT_HASH, hash)]);
    (0..wanted)
        .map(|index| (pod_key(key, &format!("{}-{hash}-{index}", key.name)), pod.clone()))
        .collect()
}

/// Pods by ordinal, and their claims, which outlive the set unless its policy is Delete.
fn stateful(
    state: &mut State,
    key: &ResourceKey,
    workload: &Value,
    wanted: u64,
    hash: &str,
) -> Vec<(ResourceKey, Value)> {
    let templates = workload.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
    let mut desired = Vec::new();
    for index in 0..wanted {
        let name = format!("{}-{index}", key.name);
        let mut pod = pods::running(
            key,
            workload,
            &[(STATEFUL_HASH, hash), ("statefulset.kubernetes.io/pod-name", &name)],
        );
        for template in templates.into_iter().flatten() {
            let volume = template["metadata"]["name"].as_str().unwrap_or_default();
            let claim = claim(state, key, workload, template, &format!("{volume}-{name}"));
            if !pod["spec"]["volumes"].is_array() {
                pod["spec"]["volumes"] = json!([]);
            }
            if let Some(volumes) = pod["spec"]["volumes"].as_array_mut() {
                let source = json!({ "claimName": claim });
                volumes.push(json!({ "name": volume, "persistentVolumeClaim": source }));
            }
        }
        desired.push((pod_key(key, &name), pod));
    }
    desired
}

fn claim(
    state: &mut State,
    key: &ResourceKey,
    workload: &Value,
    template: &Value,
    name: &str,
) -> String {
    let claim = ResourceKey::new(Kind::PersistentVolumeClaim, &key.namespace, name);
    if state.get(&claim).is_none() {
        state.edit(&claim, |object| {
            object["metadata"]["labels"] = template["metadata"]["labels"].clone();
            merge_into(
                &mut object["metadata"]["labels"],
                workload["spec"]["selector"]["matchLabels"].clone(),
            );
            if workload["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete" {
                object["metadata"]["ownerReferences"] = json!([{
                    "apiVersion": "apps/v1",
                    "kind": "StatefulSet",
                    "name": key.name,
                    "uid": workload["metadata"]["uid"],
                }]);
            }
            object["spec"] = template["spec"].clone();
        });
    }
    claim.name
}

/// Deletes pods beyond the wanted number, and those of an older template.
fn remove_others(
    state: &mut State,
    key: &ResourceKey,
    workload: &Value,
    desired: &[(ResourceKey, Value)],
    hash: &str,
) {
    for pod in pods_of(state, workload) {
        let is_wanted = desired.iter().any(|(wanted, _)| *wanted == pod);
        if !is_wanted || !is_current(state, key.kind, &pod, hash) {
            state.delete(&pod);
        }
    }
}

fn status(state: &State, key: &ResourceKey, workload: &Value, wanted: u64, hash: &str) -> Value {
    let pods = pods_of(state, workload);
    let ready =
        pods.iter().filter_map(|pod| state.get(pod)).filter(|pod| pods::is_ready(pod)).count();
    let updated = pods.iter().filter(|pod| is_current(state, key.kind, pod, hash)).count();
    let mut status = Map::new();
    status.insert("observedGeneration".to_owned(), workload["metadata"]["generation"].clone());
    let mut count = |name: &str, number: usize| {
        // As on a real server, zeros are omitted.
        if number > 0 {
            status.insert(name.to_owned(), number.into());
        }
    };
    count("replicas", pods.len());
    count("updatedReplicas", updated);
    count("readyReplicas", ready);
    count("availableReplicas", ready);
    if key.kind == Kind::StatefulSet {
        count("currentReplicas", updated);
        // A StatefulSet always has these.
        status.entry("replicas").or_insert_with(|| 0.into());
        status.entry("availableReplicas").or_insert_with(|| 0.into());
        status.insert("currentRevision".to_owned(), format!("{}-{hash}", key.name).into());
        status.insert("updateRevision".to_owned(), format!("{}-{hash}", key.name).into());
    } else {
        let enough = u64::try_from(ready).is_ok_and(|ready| ready >= wanted);
        let (available, reason) = if enough {
            ("True", "MinimumReplicasAvailable")
        } else {
            ("False", "MinimumReplicasUnavailable")
        };
        let progress = if enough { "NewReplicaSetAvailable" } else { "ReplicaSetUpdated" };
        let mut conditions = vec![
            json!({ "type": "Available", "status": available, "reason": reason }),
            json!({ "type": "Progressing", "status": "True", "reason": progress }),
        ];
        let missing = u64::try_from(pods.len()).is_ok_and(|there| there < wanted);
        let refused = over_quota(state, &pod_key(key, &format!("{}-{hash}", key.name)));
        if let Some(error) = refused.filter(|_| missing) {
            conditions.push(json!({ "type": "ReplicaFailure", "status": "True",
                                    "reason": "FailedCreate", "message": error }));
        }
        status.insert("conditions".to_owned(), conditions.into());
    }
    Value::Object(status)
}

fn pods_of(state: &State, workload: &Value) -> Vec<ResourceKey> {
    let mut pods = state.children_of(workload["metadata"]["uid"].as_str().unwrap_or_default());
    pods.retain(|key| key.kind == Kind::Pod);
    pods
}

fn is_current(state: &State, kind: Kind, pod: &ResourceKey, hash: &str) -> bool {
    let label = if kind == Kind::StatefulSet { STATEFUL_HASH } else { DEPLOYMENT_HASH };
    state.get(pod).is_some_and(|pod| pod["metadata"]["labels"][label] == hash)
}

fn pod_key(owner: &ResourceKey, name: &str) -> ResourceKey {
    ResourceKey::new(Kind::Pod, &owner.namespace, name)
}

fn merge_into(target: &mut Value, source: Value) {
    let Value::Object(source) = source else {
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in source {
        if value.is_object() && target.get(&name).is_some_and(Value::is_object) {
            merge_into(&mut target[&name], value);
        } else {
            target[&name] = value;
        }
    }
}

/// A hash of the template. Equal templates have the same text, because fields are sorted by name.
fn hash_of(template: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    template.to_string().hash(&mut hasher);
    format!("{:010x}", hasher.finish() & 0xff_ffff_ffff)
}
