//! Asking a cluster why something gets no further, its events and the Job of a cron's run: late, seldom, and
//! of single objects only.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::Observation;
use trueup_model::order::{Order, Unit};
use trueup_rules::status::observe::{Answers, Unexplained, explain, unexplained};

use crate::executor::pass::Shared;
use crate::verbs::CallError;

/// How long something may take before anybody is asked why.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long an answer is believed.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// What was asked about units that get no further.
#[derive(Debug, Default)]
pub(crate) struct CachedWarnings {
    quiet: Mutex<HashMap<Unit, Quiet>>,
}

/// A unit that gets no further and does not say why.
#[derive(Debug, Clone)]
struct Quiet {
    /// When its events are asked for next.
    ask_at: Duration,
    answers: Vec<(Unexplained, Answers)>,
}

impl CachedWarnings {
    /// Nobody asks about this unit any more.
    pub(crate) fn forget(&self, unit: Unit) {
        self.quiet().remove(&unit);
    }

    fn quiet(&self) -> MutexGuard<'_, HashMap<Unit, Quiet>> {
        self.quiet.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Adds to what was seen what events tell about it, where nothing else does; answers when to look
    /// again, because nothing may happen that would cause it.
    pub(crate) async fn ask_why(
        &self,
        order: &Order,
        seen: Option<&mut Observation>,
    ) -> Option<Duration> {
        let seen = seen?;
        let open = unexplained(seen);
        if open.is_empty() {
            self.told.quiet().remove(&order.unit);
            return None;
        }
        let now = self.clock.monotonic();
        let first = Quiet { ask_at: now + PATIENCE, answers: Vec::new() };
        let mut quiet = self.told.quiet().entry(order.unit).or_insert(first).clone();
        if quiet.ask_at <= now {
            let mut answers = Vec::new();
            for of in open {
                match self.ask(order, &of).await {
                    Ok(told) => answers.push((of, told)),
                    Err(error) => {
                        tracing::debug!(kind = %of.kind, name = of.name, %error, "it cannot be asked");
                    }
                }
            }
            quiet = Quiet { ask_at: now + ASK_AGAIN, answers };
            self.told.quiet().insert(order.unit, quiet.clone());
        }
        for (of, answers) in &quiet.answers {
            explain(seen, of, answers);
        }
        Some(quiet.ask_at)
    }

    /// What one of them answers: the Job of a run, if there is one, and otherwise itself.
    async fn ask(&self, order: &Order, of: &Unexplained) -> Result<Answers, CallError> {
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
