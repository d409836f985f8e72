//! A run of a cron that never started, of an earlier spec.
//!
//! Runs do not overlap, so a run whose image does not exist would block its corrected successors
//! until its time limit. Trueup deletes only what it recorded, and runs belong to their CronJob. So
//! the next run may replace such a run.

use serde_json::Value;
use trueup_model::key::Kind;

use super::{Observed, terminating};
use crate::compare::diff::first_difference;
use crate::render::{self, Rendered, names};

/// Lets the next run replace the active one, while that waits with an earlier spec.
pub(super) fn replace(observed: &Observed, workload: Rendered) -> Rendered {
    if workload.key.kind == Kind::CronJob && is_blocked(observed, &workload.object) {
        render::with_replacing_runs(workload)
    } else {
        workload
    }
}

/// Whether there are active pods, and all of them wait with an earlier spec. A run that has started
/// is never replaced.
fn is_blocked(observed: &Observed, cron: &Value) -> bool {
    let wanted = &cron["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    let mut active = observed
        .pods
        .iter()
        .filter(|pod| !terminating(pod) && !has_ended(pod))
        .map(|pod| has_started(pod) || !is_outdated(wanted, pod))
        .peekable();
    active.peek().is_some() && !active.any(|keeps| keeps)
}

fn has_ended(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// A pod is pending until its first container has started.
fn has_started(pod: &Value) -> bool {
    pod["status"]["phase"].as_str().is_some_and(|phase| phase != "Pending")
}

/// Whether a pod has another image, size or node class than wanted now. Variables do not count: a
/// pod reads them when it starts.
fn is_outdated(wanted: &Value, pod: &Value) -> bool {
    let ours = &wanted["containers"][0];
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let class = |spec: &Value| spec["nodeSelector"][names::NODE_CLASS].clone();
    let mut found = containers.filter(|container| container["name"] == ours["name"]);
    class(wanted) != class(&pod["spec"])
        || found.next().is_some_and(|live| {
            live["image"] != ours["image"]
                || first_difference(&ours["resources"], &live["resources"]).is_some()
        })
}
