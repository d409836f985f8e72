//! Explains problems that only Kubernetes events show, and failed runs of a cron from their Job.
//!
//! Only events say why a StatefulSet or a Job gets no pods, or why a pod cannot mount its disk.
//! They are best effort and kept for an hour. So they are read only if nothing else explains a
//! problem, and ignored if they are older than the longest retry interval of a controller.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use trueup_model::key::Kind;
use trueup_model::observation::{Cause, Observation, PodProblem, Run, Runs};

use super::overdue::explain_overdue;
use super::runs::{self, Failure};
use super::{each, not_made, pod, text};

/// Controllers retry after at most seventeen minutes and emit an event each time.
const LATELY: SignedDuration = SignedDuration::from_mins(20);

/// An object that makes no progress, without a known cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unexplained {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// For a cron, the Job of its last run: that is read first.
    pub run: Option<String>,
    /// For a cron whose run is overdue, when it was due.
    pub due: Option<Timestamp>,
}

/// What was read for an unexplained object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers {
    /// Warning events of the run's Job, or of the object itself without a run.
    pub events: Vec<Value>,
    /// The Job of the run.
    pub run: Option<Value>,
}

/// The objects to read events of: the workload if pods are missing, and a pod that is not ready.
///
/// Empty if nothing is wrong or the cause is already known.
#[must_use]
pub fn unexplained(seen: &Observation) -> Vec<Unexplained> {
    let Some(workload) = seen.workload.as_ref().filter(|_| seen.applied) else {
        return Vec::new();
    };
    let mut alive = seen.pods.iter().filter(|pod| pod.ended.is_none());
    let is_explained = workload.stuck.is_some() || alive.clone().any(|pod| pod.problem.is_some());
    let is_short = match &workload.runs {
        Some(Runs { last: Run::Active, .. }) => alive.clone().next().is_none(),
        Some(Runs { last: Run::Failed { .. }, job: Some(_), .. }) => {
            !seen.pods.iter().any(|pod| pod.problem.is_some())
        }
        Some(_) => false,
        None => workload.existing < workload.wanted,
    };
    if is_explained {
        return Vec::new();
    }
    let maker = seen.objects.iter().find(|it| it.key.kind.is_workload() && !it.terminating);
    let maker = maker.filter(|_| is_short).map(|it| Unexplained {
        kind: it.key.kind,
        name: it.key.name.clone(),
        uid: it.uid.clone(),
        run: workload.runs.as_ref().and_then(|runs| runs.job.clone()),
        due: None,
    });
    let pod = alive.find(|pod| !pod.ready).map(|pod| Unexplained {
        kind: Kind::Pod,
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        run: None,
        due: None,
    });
    maker.into_iter().chain(pod).collect()
}

/// Adds the cause that was found for one of those objects, if any.
pub fn explain(seen: &mut Observation, of: &Unexplained, answers: &Answers) {
    if let Some(due) = of.due {
        return explain_overdue(seen, due, &answers.events);
    }
    if let Some(job) = &answers.run {
        return explain_run(seen, of, job, &answers.events);
    }
    let Some(problem) = newest("pods", &answers.events, lately(seen.as_of)) else { return };
    if of.kind == Kind::Pod {
        if let Some(pod) = seen.pods.iter_mut().find(|pod| pod.uid == of.uid) {
            pod.problem.get_or_insert(problem);
        }
    } else if let Some(workload) = &mut seen.workload {
        workload.stuck.get_or_insert(problem);
    }
}

/// Adds the cause from the Job of a cron's last run. A Job that the cron does not own, or of an
/// earlier run, is ignored.
fn explain_run(seen: &mut Observation, of: &Unexplained, job: &Value, events: &[Value]) {
    let now = seen.as_of;
    let Some(workload) = &mut seen.workload else { return };
    let Some(runs) = workload.runs.as_mut().filter(|runs| runs.job == of.run) else { return };
    let is_its = |owner: &Value| owner["uid"] == *of.uid && owner["controller"] == true;
    if !each(&job["metadata"]["ownerReferences"]).any(is_its) {
        return;
    }
    let problem = match (&mut runs.last, runs::failure(job)) {
        (Run::Failed { .. }, Some(Failure::Stopped(problem))) => Some(problem),
        (Run::Failed { why }, Some(Failure::Said(said))) if !said.is_empty() => {
            *why = format!("{why}: {said}");
            None
        }
        (Run::Active, None) => newest("pods", events, lately(now)),
        (Run::Waiting | Run::Active | Run::Succeeded | Run::Failed { .. }, _) => None,
    };
    workload.stuck = workload.stuck.take().or(problem);
}

/// The earliest time of an event that still counts.
fn lately(now: Timestamp) -> Timestamp {
    now.checked_sub(LATELY).unwrap_or(Timestamp::MIN)
}

/// The problem of the newest event that is not older than `since`; `what` could not be created.
pub(super) fn newest(what: &str, events: &[Value], since: Timestamp) -> Option<PodProblem> {
    let recent = events.iter().filter_map(|event| {
        let at = last_seen(event)?;
        (at >= since).then_some((at, event))
    });
    let problems = recent.filter_map(|(at, event)| Some((at, problem(what, event)?)));
    problems.max_by_key(|(at, _)| *at).map(|(_, problem)| problem)
}

fn problem(what: &str, event: &Value) -> Option<PodProblem> {
    let message = text(&event["message"]);
    match event["reason"].as_str()? {
        "FailedCreate" => Some(not_made(what, &message)),
        "FailedMount" | "FailedAttachVolume" | "FailedMapVolume" => {
            Some(pod::problem(Cause::MountFailed, message))
        }
        _ => None,
    }
}

/// When an event last occurred, from the first field that is set.
fn last_seen(event: &Value) -> Option<Timestamp> {
    let places = [
        &event["series"]["lastObservedTime"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["metadata"]["creationTimestamp"],
    ];
    places.into_iter().find_map(|at| at.as_str()?.parse().ok())
}
