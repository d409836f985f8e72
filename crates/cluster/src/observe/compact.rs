//! Drops fields that plans and observations never read, to save memory.
//!
//! The cache holds thousands of pods and workloads. The spec of a workload is compared with what
//! was applied, so it is kept; of a pod only its node and its status are read.

use serde_json::{Map, Value};
use trueup_model::key::Kind;

/// Unread fields of a pod's spec.
const POD_SPEC: [&str; 12] = [
    "affinity",
    "dnsPolicy",
    "enableServiceLinks",
    "imagePullSecrets",
    "preemptionPolicy",
    "schedulerName",
    "securityContext",
    "serviceAccount",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
];

/// Unread fields of a pod's containers.
const CONTAINER: [&str; 11] = [
    "args",
    "command",
    "env",
    "envFrom",
    "imagePullPolicy",
    "lifecycle",
    "ports",
    "securityContext",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "volumeMounts",
];

/// Drops the unread fields of an object.
pub(crate) fn compact(kind: Kind, object: &mut Value) {
    if kind == Kind::Pod {
        pod(object);
    }
    // A node's images and volumes are often longer than the rest of it.
    if let Some(status) = object.get_mut("status").filter(|_| kind == Kind::Node) {
        drop_from(status, &["images", "volumesAttached", "volumesInUse"]);
    }
}

fn pod(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata") {
        drop_from(metadata, &["managedFields", "annotations", "generateName"]);
    }
    let Some(spec) = object.get_mut("spec") else { return };
    drop_from(spec, &POD_SPEC);
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            drop_from(container, &CONTAINER);
        }
    }
}

fn drop_from(value: &mut Value, names: &[&str]) {
    if let Some(map) = value.as_object_mut() {
        // Rebuilt instead of `retain`: a map that shrinks keeps its memory.
        let kept: Map<String, Value> = std::mem::take(map)
            .into_iter()
            .filter(|(name, _)| !names.contains(&name.as_str()))
            .collect();
        *map = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A pod as a real API server returns it.
    fn real_pod() -> Value {
        let fields = json!({"f:metadata": {"f:labels": {".": {}, "f:pod-template-hash": {}, "f:trueup.dev/name": {}},
            "f:ownerReferences": {".": {}, "k:{\"uid\":\"11111111-2222-3333-4444-555555555555\"}": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:envFrom": {}, "f:image": {},
            "f:imagePullPolicy": {}, "f:name": {}, "f:ports": {}, "f:resources": {}, "f:securityContext": {},
            "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {}}}, "f:dnsPolicy": {},
            "f:restartPolicy": {}, "f:schedulerName": {}, "f:securityContext": {}, "f:serviceAccount": {}}});
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web-1-abc", "namespace": "shop-1", "uid": "u", "resourceVersion": "9",
                "generateName": "web-1-", "creationTimestamp": "2030-01-01T00:00:00Z",
                "labels": {"pod-template-hash": "abc", "trueup.dev/name": "web-1"},
                "annotations": {"trueup.dev/config": "0123456789abcdef01234567"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "r"}],
                "managedFields": [{"manager": "kube-controller-manager", "fieldsV1": fields}]},
            "spec": {"nodeName": "node-1", "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
                "schedulerName": "default-scheduler", "serviceAccountName": "trueup-workload",
                "serviceAccount": "trueup-workload", "terminationGracePeriodSeconds": 30,
                "securityContext": {"fsGroup": 1000, "runAsNonRoot": true, "runAsUser": 1000},
                "tolerations": [{"effect": "NoExecute", "key": "node.kubernetes.io/not-ready",
                    "operator": "Exists", "tolerationSeconds": 300}, {"effect": "NoExecute",
                    "key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300}],
                "containers": [{"name": "main", "image": "nginx:1", "imagePullPolicy": "IfNotPresent",
                    "envFrom": [{"configMapRef": {"name": "web-1-config"}}, {"secretRef": {"name": "web-1-secret"}}],
                    "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
                    "resources": {"limits": {"cpu": "250m", "memory": "256Mi"}, "requests": {"cpu": "250m", "memory": "256Mi"}},
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}]},
            "status": {"phase": "Running", "podIP": "10.0.0.9", "conditions": [
                {"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
                "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "state": {"running": {}}}]}
        })
    }

    #[test]
    fn compacted_pod_is_less_than_half_of_what_the_server_sends() {
        let (whole, mut kept) = (real_pod(), real_pod());
        compact(Kind::Pod, &mut kept);
        let (before, after) = (whole.to_string().len(), kept.to_string().len());
        println!("a pod: {before} bytes from the server, {after} in the cache");
        assert!(after * 2 < before, "{after} of {before}");
        for place in
            ["/status", "/spec/nodeName", "/spec/containers/0/resources", "/metadata/labels"]
        {
            assert_eq!(kept.pointer(place), whole.pointer(place), "{place}");
        }
    }
}
