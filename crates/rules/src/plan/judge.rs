//! Compares one live object with its desired state and decides the next action.

use std::borrow::Cow;

use serde_json::Value;
use trueup_model::drift::{Divergence, DivergenceState};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;
use trueup_model::report::ObjectChange;

use super::drift::{Comparison, Edits, deleted};
use super::former::Former;
use super::stamp::{Stamp, stamp};
use super::{Action, Observed, Ownership, delete, ownership, terminating};
use crate::compare::diff::Difference;
use crate::compare::edit::guard;
use crate::compare::fixed::{difference_in_fixed, is_immutable};
use crate::drift::decide::may_keep;
use crate::render::Rendered;
use crate::render::proof::ProofKey;

/// The decision about one object.
pub(super) enum ObjectPlan {
    /// Nothing: it matches its desired state, but for what is kept.
    Fine,
    /// Run this action.
    Act(Box<Action>),
    /// Wait until it is deleted.
    Wait,
    /// Wait before the next revert of a fight, for this.
    Pause(String),
    /// A user or operator has to act first.
    Blocked(String),
}

/// The decision about one object, and its differences that stand until the action is done.
pub(super) struct Judged {
    pub(super) plan: ObjectPlan,
    /// In field order, each field once.
    pub(super) standing: Vec<Divergence>,
}

impl From<ObjectPlan> for Judged {
    fn from(plan: ObjectPlan) -> Self {
        Self { plan, standing: Vec::new() }
    }
}

pub(super) fn judge(
    order: &Order,
    former: &Former,
    observed: &Observed,
    proofs: &ProofKey,
    wanted: &Rendered,
) -> Judged {
    let key = &wanted.key;
    let Some(live) = observed.objects.get(key).map(|live| &**live) else {
        return missing(order, proofs, wanted);
    };
    if ownership(order, key, live, proofs) == Ownership::Foreign {
        let why = format!(
            "{key} exists and is not owned by Trueup; remove or rename it, then reconcile again"
        );
        return ObjectPlan::Blocked(why).into();
    }
    if terminating(live) {
        return ObjectPlan::Wait.into();
    }
    if is_immutable(key.kind, live) {
        // It cannot become mutable again, and its content is known: replace it.
        return ObjectPlan::Act(Box::new(delete(key, live))).into();
    }
    let stamp = stamp(order, proofs, wanted, live);
    let comparison = Comparison {
        order,
        proofs,
        key,
        live,
        stamp: &stamp,
        former: former.written(order, proofs, key, live),
        now: observed.as_of,
    };
    let Edits { object, standing: edits } = comparison.edits(&wanted.object);
    let (additions, patch) = comparison.additions(&object);

    let plan = if let Some(blocked) = blocked_by_fixed(key, &object, live) {
        blocked
    } else if let Some(patch) = patch {
        let change = reverted(key, named_like(&edits, &additions));
        ObjectPlan::Act(Box::new(Action::Prune { key: key.clone(), patch, change }))
    } else if matches!(stamp, Stamp::Current) && !has_open(&edits) {
        ObjectPlan::Fine
    } else {
        let change = match stamp {
            Stamp::Older => ObjectChange::Updated { key: key.clone() },
            Stamp::Current | Stamp::Edited(_) => reverted(key, edits.iter().cloned()),
        };
        apply(order, proofs, (wanted, object), live, change)
    };
    Judged { plan, standing: in_field_order(edits, additions) }
}

/// Creates an object that does not exist.
fn missing(order: &Order, proofs: &ProofKey, wanted: &Rendered) -> Judged {
    let key = wanted.key.clone();
    let was_there = order.recorded.get(&key).is_some_and(Option::is_some);
    let standing = if was_there { vec![deleted(&key)] } else { Vec::new() };
    let change = if was_there {
        ObjectChange::DeletedExternally { key: key.clone() }
    } else {
        ObjectChange::Created { key: key.clone() }
    };
    let object = wanted.stamped(order, proofs);
    Judged { plan: ObjectPlan::Act(Box::new(Action::Apply { key, object, change })), standing }
}

/// Writes the desired object, with the live values of kept fields.
///
/// Where values may be kept, the write is guarded by the uid and version that was compared: it must
/// not overwrite a value that another writer sets meanwhile.
fn apply(
    order: &Order,
    proofs: &ProofKey,
    (wanted, object): (&Rendered, Cow<'_, Value>),
    live: &Value,
    change: ObjectChange,
) -> ObjectPlan {
    let key = wanted.key.clone();
    let guarded = matches!(object, Cow::Owned(_)) || may_keep(&order.drift, &key);
    let written =
        Rendered { key: key.clone(), object: object.into_owned(), digest: wanted.digest.clone() };
    let mut object = written.stamped(order, proofs);
    if guarded {
        guard(&mut object, live);
    }
    ObjectPlan::Act(Box::new(Action::Apply { key, object, change }))
}

fn blocked_by_fixed(key: &ResourceKey, object: &Value, live: &Value) -> Option<ObjectPlan> {
    let Difference { field, .. } = difference_in_fixed(key.kind, object, live)?;
    Some(ObjectPlan::Blocked(format!(
        "{key} has a different {field} than desired, and that field is immutable; {}",
        way_out(key.kind)
    )))
}

/// What to do about a difference in an immutable field.
const fn way_out(kind: Kind) -> &'static str {
    if matches!(kind, Kind::PersistentVolumeClaim) {
        "request the value it has: Trueup does not delete data for this"
    } else {
        "request the value it has, or delete the object so that it is created again"
    }
}

/// The most differences of one object that are recorded. All of them are reverted or kept; an edit
/// with a hundred thousand fields must not become as many rows.
const MOST_RECORDED: usize = 100;

fn is_open(divergence: &Divergence) -> bool {
    divergence.state == DivergenceState::Open
}

fn has_open(standing: &[Divergence]) -> bool {
    standing.iter().any(is_open)
}

/// The additions; one that is also an edited field is shown as that.
fn named_like<'a>(
    edits: &'a [Divergence],
    additions: &'a [Divergence],
) -> impl Iterator<Item = Divergence> + 'a {
    additions.iter().map(move |added| {
        let edited = edits.iter().find(|edited| edited.field == added.field);
        edited.unwrap_or(added).clone()
    })
}

/// The change to report once these are reverted; kept ones are left out.
fn reverted(key: &ResourceKey, standing: impl Iterator<Item = Divergence>) -> ObjectChange {
    let mut fields: Vec<Divergence> = standing
        .filter(is_open)
        .map(|open| Divergence { state: DivergenceState::Reverted, ..open })
        .collect();
    fields.sort_by(|a, b| a.field.cmp(&b.field));
    fields.dedup_by(|later, first| later.field == first.field);
    fields.truncate(MOST_RECORDED);
    ObjectChange::ModifiedExternally { key: key.clone(), fields }
}

/// All that stands, in field order. A field may be edited and at a closed path: it is named once.
fn in_field_order(edits: Vec<Divergence>, additions: Vec<Divergence>) -> Vec<Divergence> {
    let mut standing = edits;
    standing.extend(additions);
    standing.sort_by(|a, b| a.field.cmp(&b.field));
    standing.dedup_by(|later, first| later.field == first.field);
    standing.truncate(MOST_RECORDED);
    standing
}
