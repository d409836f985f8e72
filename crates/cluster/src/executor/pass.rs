//! One pass over one unit, from its order to its report.
//!
//! A pass makes no decisions: the plan is a pure function, and its actions are executed as they
//! are. A pass writes only keys of its order, and nothing once the fence is closed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use trueup_model::Clock;
use trueup_model::drift::Divergence;
use trueup_model::freeze::Freeze;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::Absent;
use trueup_model::order::Order;
use trueup_model::receipt::Receipt;
use trueup_model::report::{NamespaceSurvey, ObjectChange, Outcome, Report};
use trueup_model::service::DesiredState;
use trueup_rules::plan::Observed;
use trueup_rules::render::proof::ProofKey;
use trueup_rules::status::observe::observe;

use crate::act::brake::Brake;
use crate::act::fence::Fence;
use crate::act::force::force_complete;
use crate::act::in_flight::PassMemory;
use crate::act::refusal::Refusals;
use crate::act::restore_guard::RestoreGuard;
use crate::act::throttle::Throttle;
use crate::executor::drift::{Learned, PassDrift};
use crate::executor::rounds::loop_rounds;
use crate::observe::cache::Cache;
use crate::observe::warnings::CachedWarnings;
use crate::verbs::{CallError, Cluster};

/// How many keys of an order are read at once.
const READ_WIDTH: usize = 8;

/// State that all passes of one executor share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) cache: Arc<Mutex<Cache>>,
    pub(crate) proofs: ProofKey,
    pub(crate) fence: Arc<Fence>,
    pub(crate) brake: Brake,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observer: String,
    /// How long an unacknowledged call may still take effect.
    pub(crate) in_flight: Duration,
    /// Until when calls of earlier epochs may take effect.
    pub(crate) in_flight_until: Duration,
    pub(crate) restore_guard: RestoreGuard,
    pub(crate) refusals: Refusals,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) warnings: CachedWarnings,
}

/// Input of a pass besides its order.
#[derive(Debug, Clone)]
pub(crate) struct PassInput {
    /// Whether the project's namespace and policies are ready.
    pub(crate) project_ready: bool,
    /// Whether to read every key from the cluster first, bypassing the cache.
    pub(crate) fresh: bool,
    /// The order that this one replaces, until the unit is converged.
    pub(crate) former: Option<Arc<Order>>,
}

/// Result of a pass: the order with the uids it learned, and its report.
pub(crate) struct PassResult {
    pub(crate) order: Order,
    pub(crate) report: Report,
    pub(crate) memory: PassMemory,
    /// What it adds to its order about drift.
    pub(crate) learned: Learned,
    /// When to run the next pass, if that is known.
    pub(crate) requeue_at: Option<Duration>,
}

/// What a pass has collected so far.
pub(crate) struct Progress {
    pub(super) changes: Vec<ObjectChange>,
    pub(super) receipt: Option<Receipt>,
    pub(crate) survey: Option<NamespaceSurvey>,
    pub(crate) memory: PassMemory,
    pub(super) drift: PassDrift,
    pub(super) requeue_at: Option<Duration>,
    /// Optional kinds that the cluster did not accept.
    pub(super) refused: BTreeMap<Kind, Absent>,
}

impl Progress {
    fn new(order: &Order, memory: PassMemory) -> Self {
        let deleted = order.desired == DesiredState::Deleted;
        let standing: &[Divergence] = if deleted { &[] } else { &memory.standing };
        Self {
            changes: Vec::new(),
            receipt: None,
            survey: None,
            drift: PassDrift::after(standing),
            memory,
            requeue_at: None,
            refused: BTreeMap::new(),
        }
    }
}

impl Shared {
    pub(crate) fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops what is kept about a deleted unit.
    pub(crate) fn retire(&self, order: &Order) {
        self.cache().retire(order);
        self.warnings.forget(order.unit);
        self.refusals.forget(order.recorded.keys());
    }

    /// Runs one pass over an order.
    pub(crate) async fn pass(
        &self,
        mut order: Order,
        input: &PassInput,
        memory: PassMemory,
    ) -> PassResult {
        let project_ready = input.project_ready;
        let mut progress = Progress::new(&order, memory);
        let outcome = match order.permit.force.clone() {
            Some(force) => {
                let receipt = force_complete(self, &order, &progress.memory, &force).await;
                progress.receipt = Some(receipt);
                Outcome::Converged
            }
            None => self.work(&mut order, input, &mut progress).await,
        };
        let Progress { changes, receipt, survey, mut memory, drift, requeue_at, refused } =
            progress;
        let converged = outcome == Outcome::Converged;
        let expires_at = self.expires_at(&order, &drift).filter(|_| converged);
        let (standing, learned) = drift.finish();
        memory.standing.clone_from(&standing);
        // The lock must be released before `observed` takes it.
        let complete = self.cache().is_complete();
        let mut observation = complete.then(|| {
            let mut observed = self.observed(&mut order, project_ready);
            observed.missing.extend(refused);
            let applied = converged && order.desired != DesiredState::Deleted;
            observe(&order, &observed, applied, standing, &self.proofs, self.clock.now())
        });
        let requeue_at = self.explain_stall(&order, observation.as_mut()).await.or(requeue_at);
        let requeue_at = [requeue_at, expires_at].into_iter().flatten().min();
        let report = Report {
            unit: order.unit,
            org: order.org,
            generation: order.generation,
            observation,
            outcome,
            changes,
            receipt,
            survey,
        };
        PassResult { order, report, memory, learned, requeue_at }
    }

    /// When a value that is kept now has to be decided about again, in monotonic time.
    fn expires_at(&self, order: &Order, drift: &PassDrift) -> Option<Duration> {
        let now = self.clock.now();
        let at = drift.expires_at(&order.drift, now)?;
        let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
        Some(self.clock.monotonic() + left)
    }

    /// The pass itself, unless the deletion is forced.
    async fn work(&self, order: &mut Order, input: &PassInput, progress: &mut Progress) -> Outcome {
        let read = if input.fresh { self.refresh_all(order).await } else { Ok(()) };
        match read {
            Ok(()) => loop_rounds(self, order, input, progress).await,
            Err(error) => failure(&error),
        }
    }

    /// The freeze that applies to this order, if any.
    pub(crate) fn frozen(&self, order: &Order) -> Option<Freeze> {
        self.brake.now().or_else(|| order.freeze.clone())
    }

    /// Reads every key of an order from the cluster into the cache.
    pub(crate) async fn refresh_all(&self, order: &Order) -> Result<(), CallError> {
        let keys: Vec<&ResourceKey> = order.recorded.keys().collect();
        for chunk in keys.chunks(READ_WIDTH) {
            for answer in join_all(chunk.iter().map(|key| self.refresh(key))).await {
                match answer {
                    // The pass itself reports what we may not read yet.
                    Ok(_) | Err(CallError::Forbidden(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Reads the order's unwatched keys. Before the project is ready we may not, and none exist.
    pub(super) async fn read_unwatched(
        &self,
        order: &Order,
        project_ready: bool,
    ) -> Result<(), Outcome> {
        let now = self.clock.monotonic();
        let ready = project_ready || order.desired == DesiredState::Deleted;
        let unread = self.cache().unread(order, now);
        for key in unread.iter().filter(|_| ready) {
            match self.refresh(key).await {
                Ok(_) => self.cache().was_read(key, now),
                // A project's RoleBinding takes a moment to become effective.
                Err(CallError::Forbidden(_)) => {
                    return Err(Outcome::Waiting {
                        on: "permission to read its secrets".to_owned(),
                    });
                }
                Err(error) => return Err(failure(&error)),
            }
        }
        Ok(())
    }

    /// The cached state of the order's unit; the uids of our objects are recorded in the order.
    pub(crate) fn observed(&self, order: &mut Order, project_ready: bool) -> Observed {
        let mut observed = self.cache().observed(order, project_ready);
        observed.as_of = self.clock.now();
        for (key, object) in &observed.objects {
            let ours = trueup_rules::plan::ownership(order, key, object, &self.proofs);
            // The uid of an object that we deleted stays forgotten while it terminates; see
            // `forget`.
            let terminating = !object["metadata"]["deletionTimestamp"].is_null();
            let forgotten = order.recorded.get(key) == Some(&None);
            let replaced = terminating && forgotten && order.desired != DesiredState::Deleted;
            if ours == trueup_rules::plan::Ownership::Ours && !replaced {
                let uid = object["metadata"]["uid"].as_str().map(str::to_owned);
                order.recorded.insert(key.clone(), uid);
            }
        }
        observed
    }
}

/// The outcome of a call that failed.
pub(crate) fn failure(error: &CallError) -> Outcome {
    let why = error.to_string();
    match error {
        CallError::Throttled { .. } => {
            Outcome::Waiting { on: "the end of the cluster's rate limit".to_owned() }
        }
        error if error.is_unavailable() => Outcome::Deferred { why },
        CallError::Refused(_) => Outcome::Refused { why },
        _ => Outcome::Failed { why },
    }
}
