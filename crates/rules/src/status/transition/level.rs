//! The level of a pod, a disk or a node: the only place that reads their timestamps.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use trueup_model::key::Kind;
use trueup_model::transition::{
    Belongs, ContainerLevel, DiskLevel, End, Level, NodeLevel, ObjectSnapshot, PodLevel, PodPhase,
    Size,
};

use crate::render::names;
use crate::status::quantity::amount;

/// The labels that describe the machine type of a node.
const CLASS: [&str; 5] = [
    names::NODE_CLASS,
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "kubernetes.io/arch",
    "nvidia.com/gpu.product",
];

/// The snapshot of an object; `None` for kinds without transitions.
#[must_use]
pub fn snapshot(kind: Kind, object: &Value) -> Option<ObjectSnapshot> {
    let metadata = &object["metadata"];
    let (level, belongs) = if kind == Kind::Pod {
        (Level::Pod(pod(object)), pod_belongs(metadata))
    } else if kind == Kind::PersistentVolumeClaim {
        (Level::Disk(claim(object)), claim_belongs(metadata))
    } else if kind == Kind::PersistentVolume {
        let claim = &object["spec"]["claimRef"];
        let belongs = if claim.is_object() { claim_belongs(claim) } else { Belongs::Others };
        (Level::Disk(volume(object)), belongs)
    } else if kind == Kind::Node {
        (Level::Node(node(object)), Belongs::Platform)
    } else {
        return None;
    };
    Some(ObjectSnapshot {
        kind,
        uid: text(&metadata["uid"]),
        namespace: text(&metadata["namespace"]),
        name: text(&metadata["name"]),
        resource_version: text(&metadata["resourceVersion"]),
        belongs,
        level,
    })
}

fn pod_belongs(metadata: &Value) -> Belongs {
    let name = metadata["labels"][names::POD_LABEL].as_str();
    name.map_or(Belongs::Others, |name| Belongs::Named(name.to_owned()))
}

fn claim_belongs(at: &Value) -> Belongs {
    Belongs::Claim { namespace: text(&at["namespace"]), name: text(&at["name"]) }
}

fn pod(pod: &Value) -> PodLevel {
    let (metadata, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
    let ready = condition(status, "Ready");
    let scheduled = condition(status, "PodScheduled").filter(|one| one["status"] == "True");
    PodLevel {
        created_at: time(&metadata["creationTimestamp"]),
        size: pod_size(spec),
        node: spec["nodeName"].as_str().filter(|node| !node.is_empty()).map(str::to_owned),
        scheduled_at: scheduled.and_then(|one| time(&one["lastTransitionTime"])),
        started_at: time(&status["startTime"]),
        phase: phase(&status["phase"]),
        reason: status["reason"].as_str().map(str::to_owned),
        ready: ready.is_some_and(|one| one["status"] == "True"),
        ready_at: ready.and_then(|one| time(&one["lastTransitionTime"])),
        containers: ["initContainerStatuses", "containerStatuses"]
            .into_iter()
            .flat_map(|list| each(&status[list]))
            .map(|container| (text(&container["name"]), container_level(container)))
            .collect(),
        deleting_at: deleting_at(metadata),
    }
}

fn phase(phase: &Value) -> PodPhase {
    match phase.as_str() {
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        Some("Unknown") => PodPhase::Unknown,
        Some(_) | None => PodPhase::Pending,
    }
}

fn container_level(status: &Value) -> ContainerLevel {
    let running = &status["state"]["running"];
    let ended = [&status["state"]["terminated"], &status["lastState"]["terminated"]];
    ContainerLevel {
        restarts: status["restartCount"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        running_since: time(&running["startedAt"]),
        ended: ended.into_iter().find(|end| end.is_object()).map(|end| End {
            code: end["exitCode"].as_i64().unwrap_or(0),
            reason: end["reason"].as_str().map(str::to_owned),
            began_at: time(&end["startedAt"]),
            at: time(&end["finishedAt"]),
        }),
    }
}

/// The resources that the scheduler reserves: the sum of the concurrent containers, or the largest
/// init container.
fn pod_size(spec: &Value) -> Size {
    let requests = |container: &Value| size(&container["resources"]["requests"]);
    let is_sidecar = |container: &&Value| container["restartPolicy"] == "Always";
    let sidecars = each(&spec["initContainers"]).filter(is_sidecar);
    let together = each(&spec["containers"]).chain(sidecars).map(requests).fold(
        size(&spec["overhead"]),
        |sum, one| Size {
            cpu_millis: sum.cpu_millis.saturating_add(one.cpu_millis),
            memory_bytes: sum.memory_bytes.saturating_add(one.memory_bytes),
            gpus: sum.gpus.saturating_add(one.gpus),
            disk_bytes: 0,
        },
    );
    each(&spec["initContainers"]).map(requests).fold(together, |most, one| Size {
        cpu_millis: most.cpu_millis.max(one.cpu_millis),
        memory_bytes: most.memory_bytes.max(one.memory_bytes),
        gpus: most.gpus.max(one.gpus),
        disk_bytes: 0,
    })
}

fn size(amounts: &Value) -> Size {
    let read = |name: &str, per| amounts[name].as_str().and_then(|text| amount(text, per));
    Size {
        cpu_millis: read("cpu", 1000).unwrap_or(0),
        memory_bytes: read("memory", 1).unwrap_or(0),
        gpus: read(names::GPU_RESOURCE, 1).unwrap_or(0),
        disk_bytes: read("storage", 1).unwrap_or(0),
    }
}

fn claim(claim: &Value) -> DiskLevel {
    let (metadata, status) = (&claim["metadata"], &claim["status"]);
    let volume = claim["spec"]["volumeName"].as_str().filter(|_| status["phase"] == "Bound");
    DiskLevel {
        created_at: time(&metadata["creationTimestamp"]),
        size: size(&status["capacity"]),
        bound: volume.map(str::to_owned),
        changed_at: None,
        deleting_at: deleting_at(metadata),
    }
}

fn volume(volume: &Value) -> DiskLevel {
    let (metadata, status) = (&volume["metadata"], &volume["status"]);
    let claim = &volume["spec"]["claimRef"];
    let bound = status["phase"] == "Bound" && claim.is_object();
    DiskLevel {
        created_at: time(&metadata["creationTimestamp"]),
        size: size(&volume["spec"]["capacity"]),
        bound: bound.then(|| format!("{}/{}", text(&claim["namespace"]), text(&claim["name"]))),
        changed_at: time(&status["lastPhaseTransitionTime"]),
        deleting_at: deleting_at(metadata),
    }
}

fn node(node: &Value) -> NodeLevel {
    let (metadata, status) = (&node["metadata"], &node["status"]);
    let ready = condition(status, "Ready");
    let is_ready = ready.is_some_and(|one| one["status"] == "True");
    let class: BTreeMap<String, String> = CLASS
        .into_iter()
        .filter_map(|label| {
            Some((label.to_owned(), metadata["labels"][label].as_str()?.to_owned()))
        })
        .collect();
    NodeLevel {
        created_at: time(&metadata["creationTimestamp"]),
        size: size(&status["capacity"]),
        class,
        ready: is_ready,
        reason: ready
            .filter(|_| !is_ready)
            .and_then(|one| one["reason"].as_str())
            .map(str::to_owned),
        ready_at: ready.and_then(|one| time(&one["lastTransitionTime"])),
        deleting_at: deleting_at(metadata),
    }
}

/// When deletion was requested: the deletion timestamp less the grace period.
fn deleting_at(metadata: &Value) -> Option<Timestamp> {
    let ends = time(&metadata["deletionTimestamp"])?;
    let grace = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    ends.checked_sub(SignedDuration::from_secs(grace)).ok().or(Some(ends))
}

fn condition<'a>(status: &'a Value, name: &str) -> Option<&'a Value> {
    each(&status["conditions"]).find(|condition| condition["type"] == name)
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
