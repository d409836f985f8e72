//! Reads Warning events, and the Job of a cron run, to explain why a unit makes no progress.
//!
//! Only for single objects, after a delay, and at most once a minute.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::{Admission, Observation};
use trueup_model::order::{Body, Order, Unit};
use trueup_rules::render::workload_key;
use trueup_rules::status::observe::{
    Answers, Unexplained, answer_due, explain, overdue_run, overdue_since, owed_run, unexplained,
};

use crate::executor::pass::Shared;
use crate::verbs::CallError;

/// How long a unit may make no progress before its events are read.
const STALL_LIMIT: Duration = Duration::from_secs(20);
/// A unit is observed again this long after a run or an answer became overdue, and at least this
/// often, because the next run of a cron may be due in a year.
const RECHECK_AFTER: Duration = Duration::from_secs(1);
const RECHECK_EVERY: Duration = Duration::from_secs(3600);
/// How long the events that were read are reused.
const READ_INTERVAL: Duration = Duration::from_secs(60);

/// Warning events of units that make no progress.
#[derive(Debug, Default)]
pub(crate) struct CachedWarnings {
    stalled: Mutex<HashMap<Unit, Stalled>>,
}

/// A unit that makes no progress without a known cause.
#[derive(Debug, Clone)]
struct Stalled {
    /// When its events are read next.
    read_at: Duration,
    answers: Vec<(Unexplained, Answers)>,
}

impl Stalled {
    /// What was read, or for the same overdue run what was read before: events are kept for an
    /// hour, and the next run may be due in a month.
    fn or_earlier(&self, of: Unexplained, read: Answers) -> (Unexplained, Answers) {
        let earlier = self.answers.iter().find(|(one, _)| one.due.is_some() && *one == of);
        match earlier.filter(|_| read.events.is_empty()) {
            Some((_, earlier)) => (of, earlier.clone()),
            None => (of, read),
        }
    }
}

impl CachedWarnings {
    /// Drops what is cached about a unit.
    pub(crate) fn forget(&self, unit: Unit) {
        self.stalled().remove(&unit);
    }

    fn stalled(&self) -> MutexGuard<'_, HashMap<Unit, Stalled>> {
        self.stalled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Adds causes from events to the observation, where nothing else explains it. Returns when to
    /// run the next pass, because no watch event may trigger one.
    pub(crate) async fn explain_stall(
        &self,
        order: &Order,
        seen: Option<&mut Observation>,
    ) -> Option<Duration> {
        let seen = seen?;
        let answer = self.answer_wait(seen).map(|wait| self.clock.monotonic() + wait);
        let events = self.explain_by_events(order, seen).await;
        [answer, events].into_iter().flatten().min()
    }

    /// How long until a host without an answer counts as unanswered: no object changes then.
    fn answer_wait(&self, seen: &Observation) -> Option<Duration> {
        if !seen.applied {
            return None;
        }
        let due = seen
            .objects
            .iter()
            .filter(|it| it.key.kind == Kind::Ingress)
            .filter(|it| it.route.as_ref().is_some_and(|at| at.admission == Admission::Pending))
            .filter_map(|it| {
                let object = self.cache().get(&it.key)?;
                answer_due(&object)
            })
            .min()?;
        Some(until(due, seen))
    }

    /// Adds causes from events to the observation; returns when events are read next.
    async fn explain_by_events(&self, order: &Order, seen: &mut Observation) -> Option<Duration> {
        let now = self.clock.monotonic();
        let due = self.owed_run(order);
        let mut open = unexplained(seen);
        open.extend(due.and_then(|due| overdue_run(seen, due)));
        if open.is_empty() {
            self.warnings.stalled().remove(&order.unit);
            // A run that is not created changes no object, so no watch event triggers a pass.
            let due = due.filter(|_| seen.applied)?;
            return Some(now + until(overdue_since(due), seen));
        }
        let first = Stalled { read_at: now + STALL_LIMIT, answers: Vec::new() };
        let mut stalled = self.warnings.stalled().entry(order.unit).or_insert(first).clone();
        if stalled.read_at <= now {
            let mut answers = Vec::new();
            for of in open {
                match self.read_events(order, &of).await {
                    Ok(answer) => answers.push(stalled.or_earlier(of, answer)),
                    Err(error) => {
                        tracing::debug!(kind = %of.kind, name = of.name, %error, "cannot read events");
                    }
                }
            }
            stalled = Stalled { read_at: now + READ_INTERVAL, answers };
            self.warnings.stalled().insert(order.unit, stalled.clone());
        }
        for (of, answers) in &stalled.answers {
            explain(seen, of, answers);
        }
        Some(stalled.read_at)
    }

    /// When the next run of a cron is due, or was.
    fn owed_run(&self, order: &Order) -> Option<Timestamp> {
        let Body::Service(body) = &order.body else { return None };
        let key = workload_key(order, body);
        if key.kind != Kind::CronJob {
            return None;
        }
        let cron = self.cache().get(&key)?;
        owed_run(&cron)
    }

    /// Reads the Job of a run and its events, if there is one, and otherwise the object's own
    /// events.
    async fn read_events(&self, order: &Order, of: &Unexplained) -> Result<Answers, CallError> {
        let key = |kind, name| ResourceKey::new(kind, &order.namespace, name);
        if let Some(run) = &of.run
            && let Some(job) = self.cluster.get(&key(Kind::Job, run)).await?
        {
            let uid = job["metadata"]["uid"].as_str().unwrap_or_default();
            let events = self.cluster.warnings(&key(Kind::Job, run), uid).await?;
            return Ok(Answers { events, run: Some(job) });
        }
        let events = self.cluster.warnings(&key(of.kind, &of.name), &of.uid).await?;
        Ok(Answers { events, run: None })
    }
}

/// How long until a unit is observed again for something that is due at this time.
fn until(due: Timestamp, seen: &Observation) -> Duration {
    let wait = Duration::try_from(due.duration_since(seen.as_of)).unwrap_or_default();
    (wait + RECHECK_AFTER).min(RECHECK_EVERY)
}
