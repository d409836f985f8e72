//! The rounds of a pass: observe, plan and act, until there is nothing left to do now.

use std::mem;

use futures::future::join_all;
use trueup_model::crash;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::Absent;
use trueup_model::order::Order;
use trueup_model::report::{ObjectChange, Outcome};
use trueup_model::service::DesiredState;
use trueup_rules::plan::{Action, plan_after};

use super::pass::{PassInput, Progress, Shared, failure};
use crate::act::absence::{Proof, prove};
use crate::observe::survey::stopped_by;
use crate::verbs::CallError;

/// More rounds than any plan needs; limits a plan that never ends.
const ROUNDS: usize = 12;

/// Plans and acts until a plan has no actions, and returns the outcome.
pub(super) async fn loop_rounds(
    shared: &Shared,
    order: &mut Order,
    input: &PassInput,
    progress: &mut Progress,
) -> Outcome {
    let project_ready = input.project_ready;
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
        let former = input.former.as_deref();
        let mut plan = plan_after(former, order, &observed, &shared.proofs);
        let standing = mem::take(&mut plan.standing);
        progress.drift.note_plan(&mut order.drift, standing, shared.clock.now());
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
        if let Some(outcome) = act_on(shared, order, &plan.actions, progress).await {
            return outcome;
        }
    }
    Outcome::Waiting { on: "other writers to stop changing its objects".to_owned() }
}

/// Executes the actions of a plan concurrently; returns the outcome if one of them failed.
async fn act_on(
    shared: &Shared,
    order: &mut Order,
    actions: &[Action],
    progress: &mut Progress,
) -> Option<Outcome> {
    let answers = join_all(actions.iter().map(|action| shared.act(order, action))).await;
    let mut errors = Vec::new();
    for (action, answer) in actions.iter().zip(answers) {
        let answer = match answer {
            // Another writer was first: read the object and plan again.
            Err(CallError::Conflict(_)) => shared.refresh(key(action)).await.map(|_| None),
            answer => answer,
        };
        match answer {
            Ok(change) => {
                forget(order, change.as_ref());
                if let Some(change) = &change {
                    progress.drift.note_change(&mut order.drift, change, shared.clock.now());
                }
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
    failures(&errors)
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
