//! Reads the state of runs from the status of a CronJob or a Job.

use jiff::Timestamp;
use serde_json::Value;
use trueup_model::observation::{Cause, PodProblem, Run, Runs};

use super::{condition, pod, text};

/// The last run of a cron.
pub(super) fn of_cron(cron: &Value) -> Runs {
    let status = &cron["status"];
    Runs { repeats: true, last: last_scheduled(status), job: last_job(cron) }
}

/// A cron's last run, from its last schedule time and its last success. A run that is neither
/// active nor followed by a success has failed.
fn last_scheduled(status: &Value) -> Run {
    let (begun, ended_well) =
        (time(status, "lastScheduleTime"), time(status, "lastSuccessfulTime"));
    if status["active"].as_array().is_some_and(|runs| !runs.is_empty()) {
        return Run::Active;
    }
    match (begun, ended_well) {
        (None, None) => Run::Waiting,
        (Some(begun), ended) if ended.is_none_or(|ended| ended < begun) => {
            Run::Failed { why: format!("the run of {begun} did not succeed") }
        }
        (Some(_) | None, _) => Run::Succeeded,
    }
}

/// The name of the Job of a cron's last run: from its status while active, then from the minute it
/// was scheduled for.
fn last_job(cron: &Value) -> Option<String> {
    if let Some(name) = cron["status"]["active"][0]["name"].as_str() {
        return Some(name.to_owned());
    }
    let due = time(&cron["status"], "lastScheduleTime")?;
    let name = cron["metadata"]["name"].as_str()?;
    Some(format!("{name}-{}", due.as_second() / 60))
}

pub(super) fn time(status: &Value, name: &str) -> Option<Timestamp> {
    status[name].as_str().and_then(|text| text.parse().ok())
}

/// The only run of a Job, and the problem if Kubernetes stopped it.
pub(super) fn of_job(job: &Value) -> (Runs, Option<PodProblem>) {
    let (last, stopped) = match failure(job) {
        Some(Failure::Stopped(problem)) => {
            (Run::Failed { why: "the run was stopped".to_owned() }, Some(problem))
        }
        Some(Failure::Said(why)) => (Run::Failed { why }, None),
        None if is(job, "Complete").is_some() => (Run::Succeeded, None),
        None if is(job, "Suspended").is_some() => (Run::Waiting, None),
        None => (Run::Active, None),
    };
    (Runs { repeats: false, last, job: None }, stopped)
}

/// How a Job failed permanently.
pub(super) enum Failure {
    /// Kubernetes ended it.
    Stopped(PodProblem),
    /// The message of Kubernetes; its pods have details.
    Said(String),
}

/// The permanent failure of a Job, if it failed.
pub(super) fn failure(job: &Value) -> Option<Failure> {
    let failed = is(job, "Failed")?;
    let message = text(&failed["message"]);
    Some(if failed["reason"] == "DeadlineExceeded" {
        Failure::Stopped(pod::problem(Cause::TimeLimit, message))
    } else {
        Failure::Said(message)
    })
}

fn is<'a>(job: &'a Value, name: &str) -> Option<&'a Value> {
    condition(&job["status"], name).filter(|one| one["status"] == "True")
}
