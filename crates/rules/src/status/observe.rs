//! Turns Kubernetes objects into evidence: the only place that reads a workload's status.

mod host;
mod overdue;
mod pod;
mod route;
mod runs;
mod warned;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use trueup_model::drift::{Divergence, DivergenceState};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::{
    Cause, Missing, Observation, PodProblem, PodSeen, Sighting, WorkloadSeen,
};
use trueup_model::order::{Body, Order, ServiceBody};
use trueup_model::service::DesiredState;
use trueup_model::spec::Workload;

use crate::plan::{Observed, Ownership, ownership};
use crate::render::proof::ProofKey;
use crate::render::{keys, starting_replicas, workload_key};
use pod::pod_seen;

pub use host::{certificate_message, certificate_state, route_message, route_state};
pub use overdue::{overdue_run, overdue_since, owed_run};
pub use route::answer_due;
pub use warned::{Answers, Unexplained, explain, unexplained};

/// The observation of this order's unit; `divergences` are those that stand after a pass.
#[must_use]
pub fn observe(
    order: &Order,
    observed: &Observed,
    applied: bool,
    divergences: Vec<Divergence>,
    proofs: &ProofKey,
    as_of: Timestamp,
) -> Observation {
    let ours = || {
        observed
            .objects
            .iter()
            .filter(|(key, object)| ownership(order, key, object, proofs) == Ownership::Ours)
    };
    let workload = match &order.body {
        Body::Project => None,
        Body::Service(body) => {
            let key = workload_key(order, body);
            let is_left = divergences.iter().any(|one| ignores_replicas(one, &key));
            let pods = if is_left { 0 } else { desired_pods(order, body) };
            Some((key, Desired { workload: body.spec.workload, pods }))
        }
    };
    let mut pods: Vec<PodSeen> = observed
        .pods
        .iter()
        .map(|pod| {
            let name = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            let node = observed.nodes.as_ref().map(|nodes| nodes.get(name).map(|node| &**node));
            pod_seen(pod, node)
        })
        .collect();
    pods.sort_by(|a, b| a.name.cmp(&b.name));
    Observation {
        generation: order.generation,
        applied,
        objects: ours().map(|(key, object)| sighting(key, object, as_of)).collect(),
        workload: workload.and_then(|(key, desired)| {
            let (_, object) = ours().find(|(other, _)| **other == key)?;
            Some(workload_seen(desired, object))
        }),
        pods,
        missing: missing(order, observed),
        divergences,
        as_of,
    }
}

/// The missing kinds that this unit needs.
fn missing(order: &Order, observed: &Observed) -> Vec<Missing> {
    if observed.missing.is_empty() || order.desired == DesiredState::Deleted {
        return Vec::new();
    }
    let wanted: BTreeSet<Kind> = keys(order).into_iter().map(|key| key.kind).collect();
    observed
        .missing
        .iter()
        .filter(|(kind, _)| wanted.contains(kind))
        .map(|(kind, why)| Missing { kind: *kind, why: *why })
        .collect()
}

fn sighting(key: &ResourceKey, object: &Arc<Value>, as_of: Timestamp) -> Sighting {
    let metadata = &object["metadata"];
    Sighting {
        key: key.clone(),
        uid: text(&metadata["uid"]),
        resource_version: text(&metadata["resourceVersion"]),
        terminating: metadata["deletionTimestamp"].is_string(),
        bound: (key.kind == Kind::PersistentVolumeClaim)
            .then(|| object["status"]["phase"] == "Bound"),
        route: route::route_seen(key.kind, object, as_of),
        certificate: route::certificate_seen(key.kind, object),
    }
}

/// What a service wants of its workload.
#[derive(Clone, Copy)]
struct Desired {
    workload: Workload,
    /// The fewest pods there may be.
    pods: u32,
}

/// The fewest pods that are desired now, whatever others wrote to the workload.
fn desired_pods(order: &Order, body: &ServiceBody) -> u32 {
    match (order.desired, starting_replicas(order, body)) {
        (DesiredState::Paused | DesiredState::Deleted, _) => 0,
        (DesiredState::Active, None) => body.spec.replicas,
        // An autoscaler sets the number, and ignores a workload with zero replicas.
        (DesiredState::Active, Some(start)) => start.min(1),
    }
}

/// Whether the number of pods is left to another writer: then none are missing.
fn ignores_replicas(divergence: &Divergence, workload: &ResourceKey) -> bool {
    divergence.key == *workload
        && divergence.field == "spec.replicas"
        && divergence.state == DivergenceState::Ignored
}

fn workload_seen(desired: Desired, object: &Value) -> WorkloadSeen {
    match desired.workload {
        // A cron and a job report no observed generation, and need not: a change of a cron affects
        // the next run, and another spec is another job.
        Workload::CronJob => {
            let runs = Some(runs::of_cron(object));
            WorkloadSeen { current: true, runs, ..WorkloadSeen::default() }
        }
        Workload::Job => {
            let (runs, stuck) = runs::of_job(object);
            WorkloadSeen { current: true, runs: Some(runs), stuck, ..WorkloadSeen::default() }
        }
        Workload::Deployment | Workload::StatefulSet => serving(object, desired.pods),
    }
}

fn serving(object: &Value, desired_pods: u32) -> WorkloadSeen {
    let count = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    let status = &object["status"];
    WorkloadSeen {
        wanted: count(&object["spec"]["replicas"]).max(desired_pods),
        existing: count(&status["replicas"]),
        updated: count(&status["updatedReplicas"]),
        ready: count(&status["readyReplicas"]),
        current: status["observedGeneration"].as_i64() >= object["metadata"]["generation"].as_i64(),
        runs: None,
        stuck: stuck(object),
    }
}

/// Why a workload cannot create its pods, or takes too long. Only a Deployment has a condition for
/// that; for a StatefulSet and a Job there are only events (see `warned`).
fn stuck(object: &Value) -> Option<PodProblem> {
    let status = &object["status"];
    if let Some(refused) = condition(status, "ReplicaFailure").filter(|one| one["status"] == "True")
    {
        return Some(not_made("pods", &text(&refused["message"])));
    }
    let late = condition(status, "Progressing").filter(|one| one["status"] == "False")?;
    (late["reason"] == "ProgressDeadlineExceeded")
        .then(|| pod::problem(Cause::SlowStart, text(&late["message"])))
}

/// The problem that pods or runs are rejected, by a quota or by admission.
fn not_made(what: &str, message: &str) -> PodProblem {
    let over = message.contains("exceeded quota");
    let cause = if over { Cause::QuotaExceeded } else { Cause::NotAdmitted };
    pod::problem(cause, format!("{what} cannot be created: {message}"))
}

fn condition<'a>(status: &'a Value, name: &str) -> Option<&'a Value> {
    each(&status["conditions"]).find(|condition| condition["type"] == name)
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
