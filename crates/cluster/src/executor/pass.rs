//! One pass over one unit: plan, act, look again, until there is nothing left to do now.
//!
//! A pass makes no choices: the plan is pure, the actions are carried out as they are. It sends
//! nothing for a key that is not in its order, and nothing once the fence is closed.

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
use crate::act::force::end_by_force;
use crate::act::in_flight::Echoes;
use crate::act::refusal::Refusals;
use crate::act::restore_guard::RestoreGuard;
use crate::act::throttle::Throttle;
use crate::observe::cache::Cache;
use crate::observe::survey::kept_back;
use crate::observe::warnings::CachedWarnings;
use crate::verbs::{CallError, Cluster};

/// More rounds than any plan needs; a plan that never ends is a defect, not a hot loop.
const ROUNDS: usize = 12;

/// How many keys are read side by side where all of them are.
const AT_ONCE: usize = 8;

/// What every pass of one executor shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) cache: Arc<Mutex<Cache>>,
    pub(crate) proofs: ProofKey,
    pub(crate) fence: Arc<Fence>,
    pub(crate) brake: Brake,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observer: String,
    /// How long a call may take effect after its answer was given up.
    pub(crate) echo: Duration,
    /// Until when calls of earlier epochs may take effect.
    pub(crate) echo_over: Duration,
    pub(crate) doubt: RestoreGuard,
    pub(crate) refusals: Refusals,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) told: CachedWarnings,
}

/// What a pass is told beside its order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given {
    /// Whether the project's namespace and policies are all there.
    pub(crate) project_ready: bool,
    /// Whether to read every key from the cluster itself first.
    pub(crate) fresh: bool,
}

/// What a pass leaves: the order with the uids it learned, and its report.
pub(crate) struct Ended {
    pub(crate) order: Order,
    pub(crate) report: Report,
    pub(crate) echoes: Echoes,
    /// When another pass makes sense, if that is known.
    pub(crate) again_at: Option<Duration>,
}

/// What comes together on the way through a pass.
pub(crate) struct Course {
    changes: Vec<ObjectChange>,
    receipt: Option<Receipt>,
    pub(crate) survey: Option<NamespaceSurvey>,
    pub(crate) echoes: Echoes,
    again_at: Option<Duration>,
    /// Kinds that the cluster did not take, and that can be done without.
    refused: BTreeMap<Kind, Absent>,
}

impl Shared {
    pub(crate) fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what was kept about a unit that is gone for good.
    pub(crate) fn retire(&self, order: &Order) {
        self.cache().retire(order);
        self.told.forget(order.unit);
        self.refusals.forget(order.recorded.keys());
    }

    /// Works on one order until there is nothing left to do now.
    pub(crate) async fn pass(&self, mut order: Order, given: Given, echoes: Echoes) -> Ended {
        let project_ready = given.project_ready;
        let mut course = Course {
            changes: Vec::new(),
            receipt: None,
            survey: None,
            echoes,
            again_at: None,
            refused: BTreeMap::new(),
        };
        let outcome = match order.permit.force.clone() {
            Some(force) => {
                let receipt = end_by_force(self, &order, &course.echoes, &force).await;
                course.receipt = Some(receipt);
                Outcome::Converged
            }
            None => self.work(&mut order, given, &mut course).await,
        };
        let Course { changes, receipt, survey, echoes, again_at, refused } = course;
        // The lock must be free again before `look` takes it.
        let complete = self.cache().is_complete();
        let observed = complete.then(|| {
            let mut observed = self.look(&mut order, project_ready);
            observed.missing.extend(refused);
            observed
        });
        let applied = outcome == Outcome::Converged && order.desired != DesiredState::Deleted;
        let mut observation = observed
            .map(|observed| observe(&order, &observed, applied, &self.proofs, self.clock.now()));
        let again_at = self.ask_why(&order, observation.as_mut()).await.or(again_at);
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
        Ended { order, report, echoes, again_at }
    }

    /// The pass itself, as long as nobody ended it.
    async fn work(&self, order: &mut Order, given: Given, course: &mut Course) -> Outcome {
        let read = if given.fresh { self.read_afresh(order).await } else { Ok(()) };
        match read {
            Ok(()) => loop_rounds(self, order, given.project_ready, course).await,
            Err(error) => failure(&error),
        }
    }

    /// What forbids to act on this order now.
    pub(crate) fn frozen(&self, order: &Order) -> Option<Freeze> {
        self.brake.now().or_else(|| order.freeze.clone())
    }

    /// Reads every key of an order from the cluster itself, whatever was heard of it.
    pub(crate) async fn read_afresh(&self, order: &Order) -> Result<(), CallError> {
        let keys: Vec<&ResourceKey> = order.recorded.keys().collect();
        for some in keys.chunks(AT_ONCE) {
            for answer in join_all(some.iter().map(|key| self.is_taken(key))).await {
                match answer {
                    // What may not be read yet is told by the pass itself.
                    Ok(_) | Err(CallError::Forbidden(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Reads what no watch tells of. Before its project is ready nobody may, and nothing is there.
    async fn read_unwatched(&self, order: &Order, project_ready: bool) -> Result<(), Outcome> {
        let now = self.clock.monotonic();
        let ready = project_ready || order.desired == DesiredState::Deleted;
        let unread = self.cache().unread(order, now);
        for key in unread.iter().filter(|_| ready) {
            match self.is_taken(key).await {
                Ok(_) => self.cache().was_read(key, now),
                // A project's RoleBinding takes a moment to count.
                Err(CallError::Forbidden(_)) => {
                    return Err(Outcome::Waiting {
                        on: "the right to read its secrets".to_owned(),
                    });
                }
                Err(error) => return Err(failure(&error)),
            }
        }
        Ok(())
    }

    /// What is known of the order's unit now; its uids are kept in the order.
    pub(crate) fn look(&self, order: &mut Order, project_ready: bool) -> Observed {
        let mut observed = self.cache().observed(order, project_ready);
        observed.as_of = self.clock.now();
        for (key, object) in &observed.objects {
            let ours = trueup_rules::plan::ownership(order, key, object, &self.proofs);
            // What we took away ourselves stays forgotten while it goes; see `forget`.
            let going = !object["metadata"]["deletionTimestamp"].is_null();
            let forgotten = order.recorded.get(key) == Some(&None);
            let replaced = going && forgotten && order.desired != DesiredState::Deleted;
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
    course: &mut Course,
) -> Outcome {
    if !shared.cache().is_complete() {
        return Outcome::Deferred { why: "the cluster has not been seen whole yet".to_owned() };
    }
    shared.cache().forget_unwatched(order);
    if let Err(outcome) = shared.read_unwatched(order, project_ready).await {
        return outcome;
    }
    let mut meddled = false;
    for _round in 0..ROUNDS {
        let mut observed = shared.look(order, project_ready);
        observed.missing.extend(course.refused.clone());
        if order.desired == DesiredState::Deleted {
            course.echoes.see(&observed);
        }
        let plan = plan(order, &observed, &shared.proofs);
        let stopped = shared.doubt.weigh(order.unit, &plan.outcome);
        if plan.actions.is_empty() && !meddled && course.changes.iter().any(is_foreign_act) {
            // Whoever changed what watches tell of may have changed what they do not tell of.
            meddled = true;
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
            match prove(shared, order, &mut course.echoes).await {
                Proof::Closed(receipt) => {
                    crash::point("executor.verified").await;
                    course.receipt = Some(*receipt);
                    return Outcome::Converged;
                }
                Proof::Present => continue,
                Proof::Open { outcome, at } => {
                    course.again_at = at;
                    return outcome;
                }
            }
        }
        if let Some(outcome) = kept_back(shared, order, &plan.actions, course).await {
            return outcome;
        }
        let acts = plan.actions.iter().map(|action| shared.act(order, action));
        let mut errors = Vec::new();
        for (action, answer) in plan.actions.iter().zip(join_all(acts).await) {
            let answer = match answer {
                // Somebody was there first: look, and judge again.
                Err(CallError::Conflict(_)) => shared.is_taken(key(action)).await.map(|_| None),
                answer => answer,
            };
            match answer {
                Ok(change) => {
                    forget(order, change.as_ref());
                    course.changes.extend(change);
                }
                Err(error) => match part_refused(action, &error) {
                    Some((kind, why)) => _ = course.refused.insert(kind, why),
                    None => {
                        course.echoes.hear(&error, shared.clock.monotonic());
                        errors.push((action, error));
                    }
                },
            }
        }
        for (_, error) in &errors {
            shared.throttle.heed(error, shared.clock.monotonic());
        }
        if let Some(outcome) = failures(&errors) {
            return outcome;
        }
    }
    Outcome::Waiting { on: "other writers to come to rest".to_owned() }
}

/// What we took away ourselves and shall be there again one day was not taken by somebody else.
fn forget(order: &mut Order, change: Option<&ObjectChange>) {
    if let (Some(ObjectChange::Removed { key }), DesiredState::Active | DesiredState::Paused) =
        (change, order.desired)
    {
        order.recorded.insert(key.clone(), None);
    }
}

/// The kind that the cluster does not take, where a service can do without it.
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

/// Whether somebody else had a hand in it.
const fn is_foreign_act(change: &ObjectChange) -> bool {
    matches!(
        change,
        ObjectChange::DeletedExternally { .. } | ObjectChange::ModifiedExternally { .. }
    )
}

fn key(action: &Action) -> &ResourceKey {
    match action {
        Action::Apply { key, .. }
        | Action::Prune { key, .. }
        | Action::Delete { key, .. }
        | Action::ReleaseAnchor { key, .. } => key,
        Action::VerifyAbsence => unreachable!("proving absence sends no write that could conflict"),
    }
}

/// What the errors of one round come to. That the cluster is away says more than what it refused; that
/// it refuses a deletion needs a person: whoever runs the webhook or policy that keeps the object.
fn failures(errors: &[(&Action, CallError)]) -> Option<Outcome> {
    let refused = |deletes: bool| -> Vec<String> {
        let told = errors.iter().filter_map(|(action, error)| match error {
            CallError::Refused(words) if matches!(action, Action::Delete { .. }) == deletes => {
                Some(format!("{}: {words}", key(action)))
            }
            _ => None,
        });
        told.collect()
    };
    let (kept, refused) = (refused(true), refused(false));
    let other = errors.iter().find(|(_, error)| !matches!(error, CallError::Refused(_)));
    match other {
        Some((_, error)) => Some(failure(error)),
        None if !kept.is_empty() => Some(Outcome::Blocked {
            why: format!(
                "what shall go may not be deleted: {}; ask whoever runs what refuses it to allow \
                 that, it is tried again by itself",
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
            Outcome::Waiting { on: "the cluster, which asks to slow down".to_owned() }
        }
        error if error.is_away() => Outcome::Deferred { why },
        CallError::Refused(_) => Outcome::Refused { why },
        _ => Outcome::Failed { why },
    }
}
