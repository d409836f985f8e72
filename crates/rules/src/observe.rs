//! From Kubernetes' own words to evidence: the only place that reads a workload's status.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::{Cause, Observation, PodProblem, PodSeen, Sighting, WorkloadSeen};
use trueup_model::order::Order;

use crate::plan::{Observed, Ownership, ownership};
use crate::proof::ProofKey;

/// Nodes that `local/kube` seeds are called this: pods on them do not really run.
const SIMULATED_NODE: &str = "simulated-";

/// What was seen of this order's unit.
#[must_use]
pub fn observe(
    order: &Order,
    observed: &Observed,
    applied: bool,
    proofs: &ProofKey,
    as_of: Timestamp,
) -> Observation {
    let ours = || {
        observed
            .objects
            .iter()
            .filter(|(key, object)| ownership(order, key, object, proofs) == Ownership::Ours)
    };
    let mut pods: Vec<PodSeen> = observed.pods.iter().map(|pod| pod_seen(pod)).collect();
    pods.sort_by(|a, b| a.name.cmp(&b.name));
    Observation {
        generation: order.generation,
        applied,
        objects: ours().map(|(key, object)| sighting(key, object)).collect(),
        workload: ours()
            .find(|(key, _)| matches!(key.kind, Kind::Deployment | Kind::StatefulSet))
            .map(|(_, object)| workload_seen(object)),
        pods,
        as_of,
    }
}

fn sighting(key: &ResourceKey, object: &Arc<Value>) -> Sighting {
    let metadata = &object["metadata"];
    Sighting {
        key: key.clone(),
        uid: text(&metadata["uid"]),
        resource_version: text(&metadata["resourceVersion"]),
        terminating: metadata["deletionTimestamp"].is_string(),
        bound: (key.kind == Kind::PersistentVolumeClaim)
            .then(|| object["status"]["phase"] == "Bound"),
    }
}

fn workload_seen(object: &Value) -> WorkloadSeen {
    let count = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    let status = &object["status"];
    WorkloadSeen {
        wanted: count(&object["spec"]["replicas"]),
        existing: count(&status["replicas"]),
        updated: count(&status["updatedReplicas"]),
        ready: count(&status["readyReplicas"]),
        current: status["observedGeneration"].as_i64() >= object["metadata"]["generation"].as_i64(),
    }
}

fn pod_seen(pod: &Value) -> PodSeen {
    let condition = |name: &str| {
        pod["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == name)
    };
    PodSeen {
        name: text(&pod["metadata"]["name"]),
        uid: text(&pod["metadata"]["uid"]),
        ready: condition("Ready").is_some_and(|ready| ready["status"] == "True"),
        problem: container_problem(pod).or_else(|| {
            condition("PodScheduled")
                .filter(|scheduled| scheduled["reason"] == "Unschedulable")
                .map(|scheduled| unscheduled(&scheduled["message"]))
        }),
        simulated: pod["spec"]["nodeName"]
            .as_str()
            .is_some_and(|node| node.starts_with(SIMULATED_NODE)),
    }
}

/// The scheduler holds a pod back until its claims are bound, and says so under the same reason as
/// when no node has room.
fn unscheduled(message: &Value) -> PodProblem {
    let waits = message
        .as_str()
        .is_some_and(|said| said.contains("unbound") && said.contains("PersistentVolumeClaim"));
    problem(if waits { Cause::VolumePending } else { Cause::Unschedulable }, message)
}

fn container_problem(pod: &Value) -> Option<PodProblem> {
    let waiting = |status: &Value| {
        let waiting = &status["state"]["waiting"];
        let cause = match waiting["reason"].as_str()? {
            "ImagePullBackOff" | "ErrImagePull" | "InvalidImageName" => Cause::ImagePull,
            "CrashLoopBackOff" => Cause::CrashLoop,
            "CreateContainerConfigError" | "CreateContainerError" => Cause::ContainerConfig,
            _ => return None,
        };
        Some(problem(cause, &waiting["message"]))
    };
    pod["status"]["containerStatuses"].as_array()?.iter().find_map(waiting)
}

fn problem(cause: Cause, detail: &Value) -> PodProblem {
    PodProblem { cause, detail: text(detail) }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
