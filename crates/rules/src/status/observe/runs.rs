//! From a cron's and a Job's own words to how their runs stand.

use jiff::Timestamp;
use serde_json::Value;
use trueup_model::observation::{Cause, PodProblem, Run, Runs};

use super::{condition, pod, text};

/// What a cron says of its last run.
pub(super) fn of_cron(cron: &Value) -> Runs {
    let status = &cron["status"];
    Runs { idempotency_keys: true, last: last_by_the_clock(status), job: last_job(cron) }
}

/// A cron's last run, from the two times it keeps: when one was last begun, and when one last ended
/// well. A run that is neither under way nor followed by a success has failed.
fn last_by_the_clock(status: &Value) -> Run {
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

/// The Job of a cron's last run: named by it while that is under way, and by the minute it was due in
/// from then on. A cron keeps nothing else of what has ended.
fn last_job(cron: &Value) -> Option<String> {
    if let Some(name) = cron["status"]["active"][0]["name"].as_str() {
        return Some(name.to_owned());
    }
    let due = time(&cron["status"], "lastScheduleTime")?;
    let name = cron["metadata"]["name"].as_str()?;
    Some(format!("{name}-{}", due.as_second() / 60))
}

fn time(status: &Value, name: &str) -> Option<Timestamp> {
    status[name].as_str().and_then(|text| text.parse().ok())
}

/// How a Job's one run stands, and why it had to end, if that was not its own doing.
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
    (Runs { idempotency_keys: false, last, job: None }, stopped)
}

/// How a Job failed for good.
pub(super) enum Failure {
    /// Kubernetes ended it.
    Stopped(PodProblem),
    /// What Kubernetes says of it; its pods know more.
    Said(String),
}

/// That a Job failed for good, if it did.
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
