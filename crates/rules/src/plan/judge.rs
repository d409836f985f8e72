//! One object: as it stands against as it shall be.

use serde_json::Value;
use trueup_model::key::Kind;
use trueup_model::order::Order;
use trueup_model::report::ObjectChange;

use super::{Action, Observed, Ownership, delete, ownership, terminating};
use crate::compare::closed::{self, Foreign};
use crate::compare::diff::{Difference, difference};
use crate::compare::fixed::{difference_in_fixed, is_sealed};
use crate::compare::owner;
use crate::compare::path::{Path, PathSegment};
use crate::render::proof::ProofKey;
use crate::render::{Rendered, names};

/// What is to be done about one object.
pub(super) enum ObjectPlan {
    /// It is as it shall be.
    Fine,
    /// This.
    Act(Box<Action>),
    /// It must be gone first.
    Wait,
    /// Nothing can be done about it before somebody acts.
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
            "{key} exists and is not ours; remove or rename it, then reconcile again"
        ));
    }
    if terminating(live) {
        return ObjectPlan::Wait;
    }
    if is_sealed(key.kind, live) {
        // Nobody can open it again, and it holds nothing that is not known: a new one takes its place.
        return ObjectPlan::Act(Box::new(delete(key, live)));
    }
    if let Some(Difference { field, .. }) = difference_in_fixed(key.kind, &wanted.object, live) {
        return ObjectPlan::Blocked(format!(
            "{key} has another {field} than promised, and the cluster lets nobody change that; {}",
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

/// What somebody can do about a difference that cannot be applied away.
const fn way_out(kind: Kind) -> &'static str {
    if matches!(kind, Kind::PersistentVolumeClaim) {
        "ask for what it has: its data is not thrown away for this"
    } else {
        "ask for what it has, or take the object away so that it is made anew"
    }
}

/// What an object says about when we wrote it.
#[derive(PartialEq, Eq)]
enum Stamp {
    /// What is wanted now was written.
    Current,
    /// Something else was written by us: it has changed since, or others edited nothing we know of.
    Older,
    /// Somebody else edited the stamp or the generation beside it.
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
        // Written by a Trueup that did not sign yet, and as it was written.
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
