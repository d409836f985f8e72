//! Compares one live object with its desired state and decides the next action.

use serde_json::Value;
use trueup_model::key::Kind;
use trueup_model::order::Order;
use trueup_model::report::ObjectChange;

use super::{Action, Observed, Ownership, delete, ownership, terminating};
use crate::compare::closed::{self, Foreign};
use crate::compare::diff::{Difference, difference};
use crate::compare::fixed::{difference_in_fixed, is_immutable};
use crate::compare::owner;
use crate::compare::path::{Path, PathSegment};
use crate::render::proof::ProofKey;
use crate::render::{Rendered, names};

/// The decision about one object.
pub(super) enum ObjectPlan {
    /// Nothing: it matches its desired state.
    Fine,
    /// Run this action.
    Act(Box<Action>),
    /// Wait until it is deleted.
    Wait,
    /// A user or operator has to act first.
    Blocked(String),
}

pub(super) fn judge(
    order: &Order,
    observed: &Observed,
    proofs: &ProofKey,
    wanted: &Rendered,
) -> ObjectPlan {
    let key = &wanted.key;
    let write = |change| {
        let object = wanted.stamped(order, proofs);
        ObjectPlan::Act(Box::new(Action::Apply { key: key.clone(), object, change }))
    };
    let Some(live) = observed.objects.get(key) else {
        let was_there = order.recorded.get(key).is_some_and(Option::is_some);
        return write(if was_there {
            ObjectChange::DeletedExternally { key: key.clone() }
        } else {
            ObjectChange::Created { key: key.clone() }
        });
    };
    if ownership(order, key, live, proofs) == Ownership::Foreign {
        return ObjectPlan::Blocked(format!(
            "{key} exists and is not owned by Trueup; remove or rename it, then reconcile again"
        ));
    }
    if terminating(live) {
        return ObjectPlan::Wait;
    }
    if is_immutable(key.kind, live) {
        // It cannot become mutable again, and its content is known: replace it.
        return ObjectPlan::Act(Box::new(delete(key, live)));
    }
    if let Some(Difference { field, .. }) = difference_in_fixed(key.kind, &wanted.object, live) {
        return ObjectPlan::Blocked(format!(
            "{key} has a different {field} than desired, and that field is immutable; {}",
            way_out(key.kind)
        ));
    }
    let edited =
        |Difference { field, by }| ObjectChange::ModifiedExternally { key: key.clone(), field, by };
    let stamp = stamp(order, proofs, wanted, live);
    let foreign = closed::foreign(key.kind, &wanted.object, live);
    let foreign = if stamp == Stamp::Older { foreign.by_others() } else { foreign };
    if let Some(Foreign { field, by }) = foreign.first().cloned() {
        let change = edited(Difference { field, by });
        let prune = Action::Prune { key: key.clone(), patch: foreign.patch(), change };
        return ObjectPlan::Act(Box::new(prune));
    }
    match stamp {
        Stamp::Older => write(ObjectChange::Updated { key: key.clone() }),
        Stamp::Edited(found) => write(edited(difference(&wanted.object, live).unwrap_or(found))),
        Stamp::Current => match difference(&wanted.object, live) {
            Some(found) => write(edited(found)),
            None => ObjectPlan::Fine,
        },
    }
}

/// What to do about a difference in an immutable field.
const fn way_out(kind: Kind) -> &'static str {
    if matches!(kind, Kind::PersistentVolumeClaim) {
        "request the value it has: Trueup does not delete data for this"
    } else {
        "request the value it has, or delete the object so that it is created again"
    }
}

/// What the stamp of an object says about our last write.
#[derive(PartialEq, Eq)]
enum Stamp {
    /// We wrote the desired state.
    Current,
    /// We wrote something else: the desired state has changed since.
    Older,
    /// Another writer edited the stamp or the generation label.
    Edited(Difference),
}

fn stamp(order: &Order, proofs: &ProofKey, wanted: &Rendered, live: &Value) -> Stamp {
    let metadata = &live["metadata"];
    let edited = |place, name| {
        let path = Path(["metadata", place, name].map(PathSegment::Field).to_vec());
        Stamp::Edited(Difference { field: path.to_string(), by: owner::of(live, &path) })
    };
    let stamp = metadata["annotations"][names::DIGEST_ANNOTATION].as_str().unwrap_or_default();
    match proofs.stamped(order.unit, &wanted.key, stamp) {
        // Written by an older Trueup without signed stamps, and unchanged since.
        None if stamp == wanted.digest && difference(&wanted.object, live).is_none() => {
            Stamp::Older
        }
        None => edited("annotations", names::DIGEST_ANNOTATION),
        Some((digest, _)) if digest != wanted.digest => Stamp::Older,
        Some((_, generation)) => {
            let label = metadata["labels"][names::GENERATION_LABEL].as_str();
            if label == Some(generation.to_string().as_str()) {
                Stamp::Current
            } else {
                edited("labels", names::GENERATION_LABEL)
            }
        }
    }
}
