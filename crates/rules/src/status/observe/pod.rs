//! From a pod's own words, and its node's, to what keeps it from running.
//!
//! The nearest cause wins: what stops the pod as a whole, then what stops the containers that come
//! first, then the others, then that no node takes it.

use serde_json::Value;
use trueup_model::observation::{Cause, Ended, PodProblem, PodSeen};

use super::{condition, each, text};
use crate::render::names;

/// More of what a cluster says than this helps nobody.
const LONGEST: usize = 400;
/// How a program ends that is killed.
const KILLED: [i64; 2] = [137, 143];

/// What is seen of a pod: with its node, with none where that is gone, or without a word on nodes.
pub(super) fn pod_seen(pod: &Value, node: Option<Option<&Value>>) -> PodSeen {
    let simulated = node.flatten().is_some_and(names::is_simulated);
    PodSeen {
        name: text(&pod["metadata"]["name"]),
        uid: text(&pod["metadata"]["uid"]),
        ready: condition(&pod["status"], "Ready").is_some_and(|ready| ready["status"] == "True"),
        ended: match pod["status"]["phase"].as_str() {
            Some("Succeeded") => Some(Ended::Well),
            Some("Failed") => Some(Ended::Badly),
            Some(_) | None => None,
        },
        problem: pod_problem(pod, node),
        simulated,
    }
}

fn pod_problem(pod: &Value, node: Option<Option<&Value>>) -> Option<PodProblem> {
    if pod["status"]["phase"] == "Succeeded" {
        return None;
    }
    evicted(pod)
        .or_else(|| failed_run(pod))
        .or_else(|| node.and_then(|node| lost_node(pod, node)))
        .or_else(|| containers(pod, "initContainers", "initContainerStatuses", "init container"))
        .or_else(|| containers(pod, "containers", "containerStatuses", "container"))
        .or_else(|| unscheduled(pod))
}

/// Taken off its node: by pressure, by a drain, by a taint or for somebody more important.
fn evicted(pod: &Value) -> Option<PodProblem> {
    let status = &pod["status"];
    if status["reason"] == "Evicted" {
        return Some(problem(Cause::Evicted, text(&status["message"])));
    }
    let target = condition(status, "DisruptionTarget").filter(|one| one["status"] == "True")?;
    let who = match target["reason"].as_str().unwrap_or_default() {
        "EvictionByEvictionAPI" => "its node is being drained",
        "DeletionByTaintManager" => "its node does not tolerate it any more",
        "PreemptionByScheduler" => "a more important pod takes its place",
        "TerminationByKubelet" => "its node is short of something or shuts down",
        _ => "it is taken off its node",
    };
    Some(problem(Cause::Evicted, said(who, &target["message"])))
}

/// A pod that ended with an error and is not started again.
fn failed_run(pod: &Value) -> Option<PodProblem> {
    if pod["status"]["phase"] != "Failed" {
        return None;
    }
    let mut ends = each(&pod["status"]["containerStatuses"])
        .map(|container| &container["state"]["terminated"])
        .filter(|end| end.is_object());
    let end = ends.find(|end| end["exitCode"] != 0);
    let killed = end.is_some_and(|end| end["reason"] == "OOMKilled");
    let code = end.and_then(|end| end["exitCode"].as_i64());
    let detail = match (code, pod["status"]["message"].as_str()) {
        (_, Some(message)) => message.to_owned(),
        (Some(code), None) => format!("its program ended with exit code {code}"),
        (None, None) => text(&pod["status"]["reason"]),
    };
    Some(problem(if killed { Cause::OutOfMemory } else { Cause::Exited }, detail))
}

/// Its node is not there any more, or does not answer: what the pod says of itself is old.
fn lost_node(pod: &Value, node: Option<&Value>) -> Option<PodProblem> {
    let name = pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())?;
    let Some(node) = node else {
        return Some(problem(Cause::NodeLost, format!("its node {name} is gone")));
    };
    let ready = condition(&node["status"], "Ready")?;
    if ready["status"] == "True" {
        return None;
    }
    let since = ready["lastTransitionTime"].as_str().map(|at| format!(" since {at}"));
    let detail = format!("its node {name} is not ready{}", since.unwrap_or_default());
    Some(problem(Cause::NodeLost, said(&detail, &ready["message"])))
}

/// The first container in trouble, with its name.
fn containers(pod: &Value, specs: &str, statuses: &str, what: &str) -> Option<PodProblem> {
    each(&pod["status"][statuses]).find_map(|status| {
        let spec = each(&pod["spec"][specs]).find(|spec| spec["name"] == status["name"]);
        let is_last = statuses == "containerStatuses";
        let found = waiting(spec, status).or_else(|| running(spec, status, is_last))?;
        let name = status["name"].as_str();
        let detail = match name {
            Some(name) => format!("{what} {name}: {}", found.detail),
            None => found.detail,
        };
        Some(PodProblem { detail, ..found })
    })
}

fn waiting(spec: Option<&Value>, status: &Value) -> Option<PodProblem> {
    let waiting = &status["state"]["waiting"];
    let message = text(&waiting["message"]);
    Some(match waiting["reason"].as_str()? {
        "InvalidImageName" => problem(Cause::ImageName, message),
        "ImagePullBackOff" | "ErrImagePull" => problem(image(&message), message),
        "CrashLoopBackOff" | "RunContainerError" => crashed(spec, status, &message),
        "CreateContainerConfigError" | "CreateContainerError" => {
            problem(Cause::ContainerConfig, message)
        }
        _ => return None,
    })
}

/// Why an image cannot be had, as registries and runtimes word it.
fn image(message: &str) -> Cause {
    let said = message.to_lowercase();
    let any = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if any(&["not found", "manifest unknown", "name unknown"]) {
        Cause::ImageMissing
    } else if any(&["unauthorized", "authorization failed", "denied", "authentication required"]) {
        Cause::ImageForbidden
    } else {
        Cause::ImagePull
    }
}

/// It ended and is started again later: how it ended says why.
fn crashed(spec: Option<&Value>, status: &Value, message: &str) -> PodProblem {
    let ends = [&status["lastState"]["terminated"], &status["state"]["terminated"]];
    let Some(end) = ends.into_iter().find(|end| end.is_object()) else {
        return problem(Cause::CrashLoop, message.to_owned());
    };
    let code = end["exitCode"].as_i64().unwrap_or(0);
    let restarts = status["restartCount"].as_u64().unwrap_or(0);
    let has_liveness = spec.is_some_and(|spec| spec["livenessProbe"].is_object());
    let cause = if end["reason"] == "OOMKilled" {
        Cause::OutOfMemory
    } else if has_liveness && KILLED.contains(&code) {
        Cause::Liveness
    } else {
        Cause::CrashLoop
    };
    let how = if cause == Cause::OutOfMemory {
        "it was stopped for taking too much memory".to_owned()
    } else {
        format!("it ended with exit code {code}")
    };
    problem(cause, said(&format!("{how} and was started again {restarts} times"), &message.into()))
}

/// It runs. What it does not say yet matters only of those that go on running.
fn running(spec: Option<&Value>, status: &Value, is_last: bool) -> Option<PodProblem> {
    if !is_last || !status["state"]["running"].is_object() || status["ready"] != false {
        return None;
    }
    let has = |probe: &str| spec.is_some_and(|spec| spec[probe].is_object());
    let restarts = status["restartCount"].as_u64().unwrap_or(0);
    let after =
        if restarts > 0 { format!(" (started again {restarts} times)") } else { String::new() };
    if has("startupProbe") && status["started"] == false {
        return Some(problem(
            Cause::Startup,
            format!("it has not passed its startup check yet{after}"),
        ));
    }
    has("readinessProbe")
        .then(|| problem(Cause::Readiness, format!("it does not pass its readiness check{after}")))
}

/// No node takes it. The scheduler names every reason there is among the nodes; what is short comes
/// before what keeps the other nodes away, because the others would not be asked anyway.
fn unscheduled(pod: &Value) -> Option<PodProblem> {
    let scheduled = condition(&pod["status"], "PodScheduled")?;
    if scheduled["reason"] != "Unschedulable" {
        return None;
    }
    let message = text(&scheduled["message"]);
    let table = [
        ("unbound immediate PersistentVolumeClaim", Cause::VolumePending),
        ("unbound PersistentVolumeClaim", Cause::VolumePending),
        ("persistentvolumeclaim", Cause::VolumePending),
        ("Insufficient nvidia.com/gpu", Cause::NoGpu),
        ("Insufficient memory", Cause::NoMemory),
        ("Insufficient cpu", Cause::NoCpu),
        ("Too many pods", Cause::NoPlace),
        ("pod affinity rules", Cause::Affinity),
        ("anti-affinity rules", Cause::Affinity),
        ("topology spread constraints", Cause::Affinity),
        ("node affinity/selector", Cause::NoSuchNode),
        ("untolerated taint", Cause::Tainted),
    ];
    let cause = table.into_iter().find(|(words, _)| message.contains(words));
    Some(problem(cause.map_or(Cause::Unschedulable, |(_, cause)| cause), message))
}

/// Our words first, then the cluster's.
fn said(ours: &str, theirs: &Value) -> String {
    match theirs.as_str() {
        Some(theirs) if !theirs.is_empty() => format!("{ours}: {theirs}"),
        Some(_) | None => ours.to_owned(),
    }
}

pub(super) fn problem(cause: Cause, mut detail: String) -> PodProblem {
    if let Some((end, _)) = detail.char_indices().nth(LONGEST) {
        detail.truncate(end);
        detail.push('…');
    }
    PodProblem { cause, detail }
}
