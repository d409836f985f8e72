//! Crons whose run is overdue.
//!
//! A cron that cannot create the Job of a run keeps its status as it was: only its events say why.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use trueup_model::key::Kind;
use trueup_model::observation::{Observation, Run};

use super::runs::time;
use super::warned::{Unexplained, newest};
use crate::admit::schedule::next_after;

/// How long the cron controller may take to create a run that is due.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// When the next run of this cron is due, or was: the first one after its last run, or after the
/// cron was created. `None` while a run is active, and while it is suspended.
#[must_use]
pub fn owed_run(cron: &Value) -> Option<Timestamp> {
    let (spec, status) = (&cron["spec"], &cron["status"]);
    let is_active = status["active"].as_array().is_some_and(|runs| !runs.is_empty());
    if is_active || spec["suspend"] == true {
        return None;
    }
    let since = time(status, "lastScheduleTime")
        .or_else(|| time(&cron["metadata"], "creationTimestamp"))?;
    next_after(spec["schedule"].as_str()?, since)
}

/// From when on a run that is due at this time is overdue.
#[must_use]
pub fn overdue_since(due: Timestamp) -> Timestamp {
    due.checked_add(PATIENCE).unwrap_or(due)
}

/// The cron whose events say why its run is overdue, if it is. `due` is its owed run.
#[must_use]
pub fn overdue_run(seen: &Observation, due: Timestamp) -> Option<Unexplained> {
    let is_explained = seen.workload.as_ref().is_none_or(|workload| workload.stuck.is_some());
    if !seen.applied || is_explained || seen.as_of <= overdue_since(due) {
        return None;
    }
    let cron = seen
        .objects
        .iter()
        .find(|object| object.key.kind == Kind::CronJob && !object.terminating)?;
    Some(Unexplained {
        kind: Kind::CronJob,
        name: cron.key.name.clone(),
        uid: cron.uid.clone(),
        run: None,
        due: Some(due),
    })
}

/// Adds the cause from the cron's events since the run was due. Without one nothing is said: a
/// cron whose schedule was changed, or that was paused, may look overdue too.
pub(super) fn explain_overdue(seen: &mut Observation, due: Timestamp, events: &[Value]) {
    let Some(problem) = newest("runs", events, due) else { return };
    let Some(workload) = &mut seen.workload else { return };
    let Some(runs) = &mut workload.runs else { return };
    runs.last = Run::Failed { why: format!("the run of {due} was not created") };
    runs.job = None;
    workload.stuck.get_or_insert(problem);
}
