//! Finds the cause that keeps a pod from running, from its status and its node's.
//!
//! The most direct cause wins: of the pod as a whole, then of init containers, then of the other
//! containers, then of scheduling.

use serde_json::Value;
use trueup_model::observation::{Cause, Ended, PodProblem, PodSeen};

use super::{condition, each, text};
use crate::render::names;

/// The longest detail that is kept.
const LONGEST: usize = 400;
/// Exit codes of killed programs.
const KILLED: [i64; 2] = [137, 143];

/// The evidence of a pod. The node is `Some(None)` if it is gone, and `None` if nodes are not read.
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

/// Evicted from its node: by pressure, a drain, a taint or preemption.
fn evicted(pod: &Value) -> Option<PodProblem> {
    let status = &pod["status"];
    if status["reason"] == "Evicted" {
        return Some(problem(Cause::Evicted, text(&status["message"])));
    }
    let target = condition(status, "DisruptionTarget").filter(|one| one["status"] == "True")?;
    let what = match target["reason"].as_str().unwrap_or_default() {
        "EvictionByEvictionAPI" => "its node is being drained",
        "DeletionByTaintManager" => "the pod does not tolerate a taint of its node",
        "PreemptionByScheduler" => "preempted by a pod of higher priority",
        "TerminationByKubelet" => "its node is short of resources or shutting down",
        _ => "the pod is removed from its node",
    };
    Some(problem(Cause::Evicted, with_message(what, &target["message"])))
}

/// A pod that ended with an error and is not restarted.
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
        (Some(code), None) => format!("the program exited with code {code}"),
        (None, None) => text(&pod["status"]["reason"]),
    };
    Some(problem(if killed { Cause::OutOfMemory } else { Cause::Exited }, detail))
}

/// Its node is gone or not ready, so the status of the pod is outdated.
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
    Some(problem(Cause::NodeLost, with_message(&detail, &ready["message"])))
}

/// The first container with a problem, with its name.
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
        "ImagePullBackOff" | "ErrImagePull" => problem(image(&message), pull(message)),
        "CrashLoopBackOff" | "RunContainerError" => crashed(spec, status, &message),
        "CreateContainerConfigError" | "CreateContainerError" => {
            problem(Cause::ContainerConfig, message)
        }
        _ => return None,
    })
}

/// The cause of a failed image pull, from messages of registries and runtimes.
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

/// What a failed pull tells the users of a service.
///
/// How a connection failed would tell which hosts and ports the node can reach, so users learn only that it did.
/// Operators find the text in the events of the pod.
fn pull(message: String) -> String {
    const CONNECTION: [&str; 11] = [
        "connection refused",
        "connection reset",
        "i/o timeout",
        "deadline exceeded",
        "no route to host",
        "unreachable",
        "http response to https client",
        "malformed http",
        "x509",
        "tls:",
        "eof",
    ];
    let said = message.to_lowercase();
    if CONNECTION.iter().any(|word| said.contains(word)) {
        return "the node cannot get the image from its registry".to_owned();
    }
    message
}

/// A container that is restarted with backoff: its last exit says why.
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
        "killed for using too much memory".to_owned()
    } else {
        format!("exited with code {code}")
    };
    problem(cause, with_message(&format!("{how} and restarted {restarts} times"), &message.into()))
}

/// A running container that is not ready; init containers do not count.
fn running(spec: Option<&Value>, status: &Value, is_last: bool) -> Option<PodProblem> {
    if !is_last || !status["state"]["running"].is_object() || status["ready"] != false {
        return None;
    }
    let has = |probe: &str| spec.is_some_and(|spec| spec[probe].is_object());
    let restarts = status["restartCount"].as_u64().unwrap_or(0);
    let after = if restarts > 0 { format!(" (restarted {restarts} times)") } else { String::new() };
    if has("startupProbe") && status["started"] == false {
        return Some(problem(
            Cause::Startup,
            format!("has not passed its startup probe yet{after}"),
        ));
    }
    has("readinessProbe")
        .then(|| problem(Cause::Readiness, format!("fails its readiness probe{after}")))
}

/// A pod that cannot be scheduled. The scheduler names the reasons of all nodes; a lack of
/// resources wins over taints and selectors, which exclude nodes anyway.
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

/// Our message, then the cluster's.
fn with_message(ours: &str, theirs: &Value) -> String {
    match theirs.as_str() {
        Some(theirs) if !theirs.is_empty() => format!("{ours}: {theirs}"),
        Some(_) | None => ours.to_owned(),
    }
}

pub(super) fn problem(cause: Cause, detail: String) -> PodProblem {
    PodProblem { cause, detail: shortened(detail) }
}

/// A message of others, cut where it is too long to be stored and shown.
pub(super) fn shortened(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(LONGEST) {
        message.truncate(end);
        message.push('…');
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M2: an image reference must not be a way to scan the operator's network.
    #[test]
    fn failed_connections_to_a_registry_all_look_the_same() {
        let told: Vec<String> = [
            "dial tcp 10.0.0.5:22: connect: connection refused",
            "dial tcp 10.0.0.5:22: i/o timeout",
            "Head \"https://10.0.0.5/v2/\": http: server gave HTTP response to HTTPS client",
            "tls: failed to verify certificate: x509: certificate is valid for vault.corp",
        ]
        .map(|message| pull(message.to_owned()))
        .to_vec();
        assert!(told.iter().all(|one| one == &told[0] && !one.contains("10.0.0.5")), "{told:?}");
        let missing = "docker.io/library/nope:1: not found";
        assert_eq!(pull(missing.to_owned()), missing);
    }
}
