//! One pass over one unit: observe, plan and act, until there is nothing left to do now.
//!
//! A pass makes no decisions: the plan is a pure function, and its actions are executed as they
//! are. A pass writes only keys of its order, and nothing once the fence is closed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use trueup_model::freeze::Freeze;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::Absent;
use trueup_model::order::Order;
use trueup_model::receipt::Receipt;
use trueup_model::report::{NamespaceSurvey, ObjectChange, Outcome, Report};
use trueup_model::service::DesiredState;
use trueup_model::{Clock, crash};
use trueup_rules::plan::{Action, Observed, plan};
use trueup_rules::render::proof::ProofKey;
use trueup_rules::status::observe::observe;

use crate::act::absence::{Proof, prove};
use crate::act::brake::Brake;
use crate::act::fence::Fence;
use crate::act::force::force_complete;
use crate::act::in_flight::PassMemory;
use crate::act::refusal::Refusals;
use crate::act::restore_guard::RestoreGuard;
use crate::act::throttle::Throttle;
use crate::observe::cache::Cache;
use crate::observe::survey::stopped_by;
use crate::observe::warnings::CachedWarnings;
use crate::verbs::{CallError, Cluster};

/// More rounds than any plan needs; limits a plan that never ends.
const ROUNDS: usize = 12;

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
#[derive(Debug, Clone, Copy)]
pub(crate) struct PassInput {
    /// Whether the project's namespace and policies are ready.
    pub(crate) project_ready: bool,
    /// Whether to read every key from the cluster first, bypassing the cache.
    pub(crate) fresh: bool,
}

/// Result of a pass: the order with the uids it learned, and its report.
pub(crate) struct PassResult {
    pub(crate) order: Order,
    pub(crate) report: Report,
    pub(crate) memory: PassMemory,
    /// When to run the next pass, if that is known.
    pub(crate) requeue_at: Option<Duration>,
}

/// What a pass has collected so far.
pub(crate) struct Progress {
    changes: Vec<ObjectChange>,
    receipt: Option<Receipt>,
    pub(crate) survey: Option<NamespaceSurvey>,
    pub(crate) memory: PassMemory,
    requeue_at: Option<Duration>,
    /// Optional kinds that the cluster did not accept.
    refused: BTreeMap<Kind, Absent>,
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
        input: PassInput,
        memory: PassMemory,
    ) -> PassResult {
        let project_ready = input.project_ready;
        let mut progress = Progress {
            changes: Vec::new(),
            receipt: None,
            survey: None,
            memory,
            requeue_at: None,
            refused: BTreeMap::new(),
        };
        let outcome = match order.permit.force.clone() {
            Some(force) => {
                let receipt = force_complete(self, &order, &progress.memory, &force).await;
                progress.receipt = Some(receipt);
                Outcome::Converged
            }
            None => self.work(&mut order, input, &mut progress).await,
        };
        let Progress { changes, receipt, survey, memory, requeue_at, refused } = progress;
        // The lock must be released before `observed` takes it.
        let complete = self.cache().is_complete();
        let observed = complete.then(|| {
            let mut observed = self.observed(&mut order, project_ready);
            observed.missing.extend(refused);
            observed
        });
        let applied = outcome == Outcome::Converged && order.desired != DesiredState::Deleted;
        let mut observation = observed
            .map(|observed| observe(&order, &observed, applied, &self.proofs, self.clock.now()));
        let requeue_at = self.explain_stall(&order, observation.as_mut()).await.or(requeue_at);
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
        PassResult { order, report, memory, requeue_at }
    }

    /// The pass itself, unless the deletion is forced.
    async fn work(&self, order: &mut Order, input: PassInput, progress: &mut Progress) -> Outcome {
        let read = if input.fresh { self.refresh_all(order).await } else { Ok(()) };
        match read {
            Ok(()) => loop_rounds(self, order, input.project_ready, progress).await,
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
    async fn read_unwatched(&self, order: &Order, project_ready: bool) -> Result<(), Outcome> {
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

async fn loop_rounds(
    shared: &Shared,
    order: &mut Order,
    project_ready: bool,
    progress: &mut Progress,
) -> Outcome {
    if !shared.cache().is_complete() {
        return Outcome::Deferred {
            why: "the initial list of the cluster's objects is not complete".to_owned(),
        };
    }
    shared.cache().forget_unwatched(order);
    if let Err(outcome) = shared.read_unwatched(order, project_ready).await {
        return outcome;
    }
    let mut reread = false;
    for _round in 0..ROUNDS {
        let mut observed = shared.observed(order, project_ready);
        observed.missing.extend(progress.refused.clone());
        if order.desired == DesiredState::Deleted {
            progress.memory.note_versions(&observed);
        }
        let plan = plan(order, &observed, &shared.proofs);
        let stopped = shared.restore_guard.check(order.unit, &plan.outcome);
        if plan.actions.is_empty() && !reread && progress.changes.iter().any(calls_for_reread) {
            reread = true;
            shared.cache().read_again(order);
            if let Err(outcome) = shared.read_unwatched(order, project_ready).await {
                return outcome;
            }
            continue;
        }
        if plan.actions.is_empty() {
            return plan.outcome;
        }
        if let Some(outdated) = stopped {
            return outdated;
        }
        if plan.actions == [Action::VerifyAbsence] {
            match prove(shared, order, &mut progress.memory).await {
                Proof::Closed(receipt) => {
                    crash::point("executor.verified").await;
                    progress.receipt = Some(*receipt);
                    return Outcome::Converged;
                }
                Proof::Present => continue,
                Proof::Open { outcome, at } => {
                    progress.requeue_at = at;
                    return outcome;
                }
            }
        }
        if let Some(outcome) = stopped_by(shared, order, &plan.actions, progress).await {
            return outcome;
        }
        let acts = plan.actions.iter().map(|action| shared.act(order, action));
        let mut errors = Vec::new();
        for (action, answer) in plan.actions.iter().zip(join_all(acts).await) {
            let answer = match answer {
                // Another writer was first: read the object and plan again.
                Err(CallError::Conflict(_)) => shared.refresh(key(action)).await.map(|_| None),
                answer => answer,
            };
            match answer {
                Ok(change) => {
                    forget(order, change.as_ref());
                    progress.changes.extend(change);
                }
                Err(error) => match part_refused(action, &error) {
                    Some((kind, why)) => _ = progress.refused.insert(kind, why),
                    None => {
                        progress.memory.note_error(&error, shared.clock.monotonic());
                        errors.push((action, error));
                    }
                },
            }
        }
        for (_, error) in &errors {
            shared.throttle.note_error(error, shared.clock.monotonic());
        }
        if let Some(outcome) = failures(&errors) {
            return outcome;
        }
    }
    Outcome::Waiting { on: "other writers to stop changing its objects".to_owned() }
}

/// Forgets the uid of an object that we deleted and will create again, so that its absence does
/// not count as an external deletion.
fn forget(order: &mut Order, change: Option<&ObjectChange>) {
    if let (Some(ObjectChange::Removed { key }), DesiredState::Active | DesiredState::Paused) =
        (change, order.desired)
    {
        order.recorded.insert(key.clone(), None);
    }
}

/// The kind that the cluster does not accept, if it is optional.
fn part_refused(action: &Action, error: &CallError) -> Option<(Kind, Absent)> {
    let kind = match action {
        Action::VerifyAbsence => return None,
        Action::Apply { key, .. }
        | Action::Prune { key, .. }
        | Action::Delete { key, .. }
        | Action::ReleaseAnchor { key, .. } => key.kind,
    };
    error.absent().filter(|_| kind.is_optional()).map(|why| (kind, why))
}

/// Whether unwatched objects are read again after this change.
///
/// A writer that changed watched objects may also have changed unwatched ones. And cert-manager may
/// have written the Secret of a removed Certificate since the last read.
fn calls_for_reread(change: &ObjectChange) -> bool {
    let is_external = matches!(
        change,
        ObjectChange::DeletedExternally { .. } | ObjectChange::ModifiedExternally { .. }
    );
    is_external || matches!(change, ObjectChange::Removed { key } if key.kind == Kind::Certificate)
}

fn key(action: &Action) -> &ResourceKey {
    match action {
        Action::Apply { key, .. }
        | Action::Prune { key, .. }
        | Action::Delete { key, .. }
        | Action::ReleaseAnchor { key, .. } => key,
        Action::VerifyAbsence => unreachable!("proving absence sends no write"),
    }
}

/// The outcome of the errors of one round.
///
/// An unavailable cluster takes precedence over rejected objects. A rejected deletion needs a
/// person: the owner of the webhook or policy that rejects it.
fn failures(errors: &[(&Action, CallError)]) -> Option<Outcome> {
    let refused = |deletes: bool| -> Vec<String> {
        let messages = errors.iter().filter_map(|(action, error)| match error {
            CallError::Refused(message) if matches!(action, Action::Delete { .. }) == deletes => {
                Some(format!("{}: {message}", key(action)))
            }
            _ => None,
        });
        messages.collect()
    };
    let (kept, refused) = (refused(true), refused(false));
    let other = errors.iter().find(|(_, error)| !matches!(error, CallError::Refused(_)));
    match other {
        Some((_, error)) => Some(failure(error)),
        None if !kept.is_empty() => Some(Outcome::Blocked {
            why: format!(
                "the cluster rejects the deletion: {}; ask the owner of the webhook or policy to \
                 allow it; Trueup retries automatically",
                kept.join("; ")
            ),
        }),
        None if refused.is_empty() => None,
        None => Some(Outcome::Refused { why: refused.join("; ") }),
    }
}

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
