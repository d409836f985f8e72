//! Pods: their objects, and the workloads and claims they belong to.

use serde_json::{Value, json};
use trueup_model::key::{Kind, ResourceKey};

/// The node of every pod.
const NODE: &str = "simulated-1";

/// A pod of a workload, running and ready from the start.
pub(super) fn running(
    owner: &ResourceKey,
    workload: &Value,
    extra_labels: &[(&str, &str)],
) -> Value {
    let template = &workload["spec"]["template"];
    let mut metadata = template["metadata"].clone();
    if !metadata.is_object() {
        metadata = json!({});
    }
    for (name, value) in extra_labels {
        metadata["labels"][name] = (*value).into();
    }
    metadata["ownerReferences"] = json!([{
        "apiVersion": owner.kind.api_version(),
        "kind": owner.kind.as_str(),
        "name": owner.name,
        "uid": workload["metadata"]["uid"],
        "controller": true,
        "blockOwnerDeletion": true,
    }]);
    let containers = template["spec"]["containers"].as_array().cloned().unwrap_or_default();
    let statuses: Vec<Value> = containers
        .iter()
        .map(|container| {
            json!({
                "name": container["name"],
                "image": container["image"],
                "ready": true,
                "started": true,
                "restartCount": 0,
                "state": { "running": {} },
            })
        })
        .collect();
    let conditions: Vec<Value> = ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
        .iter()
        .map(|kind| json!({ "type": kind, "status": "True" }))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": template["spec"],
        "status": { "phase": "Running", "conditions": conditions, "containerStatuses": statuses },
    })
}

/// Sets node and times of a new pod, as scheduler and kubelet would.
pub(super) fn stamp(pod: &mut Value) {
    let now = pod["metadata"]["creationTimestamp"].clone();
    if pod["status"]["phase"].is_null() {
        return;
    }
    if pod["spec"]["nodeName"].is_null() {
        pod["spec"]["nodeName"] = NODE.into();
    }
    pod["status"]["startTime"] = now.clone();
    for condition in pod["status"]["conditions"].as_array_mut().into_iter().flatten() {
        condition["lastTransitionTime"] = now.clone();
    }
    for container in pod["status"]["containerStatuses"].as_array_mut().into_iter().flatten() {
        if container["state"]["running"].is_object() {
            container["state"]["running"]["startedAt"] = now.clone();
        }
        if container["state"]["terminated"].is_object() {
            container["state"]["terminated"]["startedAt"] = now.clone();
            container["state"]["terminated"]["finishedAt"] = now.clone();
        }
    }
}

/// The only node, which is ready.
pub(super) fn node() -> (ResourceKey, Value) {
    let capacity = json!({ "cpu": "32", "memory": "128Gi", "pods": "110", "nvidia.com/gpu": "8" });
    let ready = json!({ "type": "Ready", "status": "True", "reason": "KubeletReady",
        "lastTransitionTime": "2030-01-01T00:00:00Z" });
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": NODE, "labels": { "trueup.dev/node-class": "simulated" } },
        "status": { "capacity": capacity, "allocatable": capacity, "conditions": [ready] },
    });
    (ResourceKey::new(Kind::Node, "", NODE), node)
}

/// A pod that has ended with this exit code.
pub(super) fn ended(owner: &ResourceKey, workload: &Value, code: i64) -> Value {
    let mut pod = running(owner, workload, &[]);
    let (phase, reason) = if code == 0 { ("Succeeded", "Completed") } else { ("Failed", "Error") };
    pod["status"]["phase"] = phase.into();
    for condition in pod["status"]["conditions"].as_array_mut().into_iter().flatten() {
        if condition["type"] == "Ready" || condition["type"] == "ContainersReady" {
            condition["status"] = "False".into();
        }
    }
    for status in pod["status"]["containerStatuses"].as_array_mut().into_iter().flatten() {
        status["ready"] = false.into();
        status["state"] = json!({ "terminated": { "exitCode": code, "reason": reason } });
    }
    pod
}

pub(super) fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// The owners of a pod.
pub(super) fn workloads_of(key: &ResourceKey, pod: &Value) -> Vec<ResourceKey> {
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners
        .into_iter()
        .flatten()
        .filter_map(|owner| {
            let kind: Kind = owner["kind"].as_str()?.parse().ok()?;
            Some(ResourceKey::new(kind, &key.namespace, owner["name"].as_str()?))
        })
        .collect()
}

/// The names of the claims a pod mounts.
pub(super) fn claims_of(pod: &Value) -> Vec<&str> {
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
    volumes
        .into_iter()
        .flatten()
        .filter_map(|volume| volume.pointer("/persistentVolumeClaim/claimName")?.as_str())
        .collect()
}
