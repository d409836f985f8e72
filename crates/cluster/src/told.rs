//! Asking a cluster's events why something gets no further: late, seldom, and of single objects only.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use trueup_model::key::ResourceKey;
use trueup_model::observation::Observation;
use trueup_model::order::{Order, Unit};
use trueup_rules::observe::{Unexplained, explain, unexplained};

use crate::pass::Shared;

/// How long something may take before anybody is asked why.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long an answer is believed.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// What was asked about units that get no further.
#[derive(Debug, Default)]
pub(crate) struct Told {
    quiet: Mutex<HashMap<Unit, Quiet>>,
}

/// A unit that gets no further and does not say why.
#[derive(Debug, Clone)]
struct Quiet {
    /// When its events are asked for next.
    ask_at: Duration,
    answers: Vec<(Unexplained, Vec<Value>)>,
}

impl Told {
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
                let key = ResourceKey::new(of.kind, &order.namespace, &of.name);
                match self.cluster.warnings(&key, &of.uid).await {
                    Ok(events) => answers.push((of, events)),
                    Err(error) => tracing::debug!(%key, %error, "its events cannot be read"),
                }
            }
            quiet = Quiet { ask_at: now + ASK_AGAIN, answers };
            self.told.quiet().insert(order.unit, quiet.clone());
        }
        for (of, events) in &quiet.answers {
            explain(seen, of, events);
        }
        Some(quiet.ask_at)
    }
}
