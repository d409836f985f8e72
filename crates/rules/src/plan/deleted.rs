//! Planning absence: workloads and their parts first, the anchor last, then proof.

use std::sync::Arc;

use serde_json::Value;
use trueup_model::key::ResourceKey;
use trueup_model::order::{Body, Order};
use trueup_model::report::Outcome;

use super::anchors::release;
use super::{Action, Observed, Ownership, Plan, delete, holds, ownership, terminating};
use crate::names;
use crate::proof::ProofKey;

pub(super) fn plan(order: &Order, observed: &Observed, proofs: &ProofKey) -> Plan {
    let (anchors, children): (Vec<_>, Vec<_>) = observed
        .objects
        .iter()
        .filter(|(key, object)| ownership(order, key, object, proofs) == Ownership::Ours)
        .partition(|(key, _)| is_anchor(order, key));

    let going: Vec<Action> = children
        .iter()
        .filter(|(_, object)| !terminating(object))
        .map(|(key, object)| delete(key, object))
        .collect();
    if !going.is_empty() {
        return Plan::act(going);
    }
    if let Some(plan) = held(&children, observed) {
        return plan;
    }
    if !observed.pods.is_empty() {
        return Plan::ends(holds::pods(observed.pods.iter().map(|pod| &**pod), observed.as_of));
    }

    let last: Vec<Action> = anchors
        .iter()
        .filter_map(|(key, anchor)| {
            if terminating(anchor) { release(key, anchor) } else { Some(delete(key, anchor)) }
        })
        .collect();
    if !last.is_empty() {
        return Plan::act(last);
    }
    held(&anchors, observed).unwrap_or_else(|| Plan::act(vec![Action::VerifyAbsence]))
}

/// What still holds the first of these that is held by somebody, or the first at all.
fn held(left: &[(&ResourceKey, &Arc<Value>)], observed: &Observed) -> Option<Plan> {
    let ends: Vec<Outcome> =
        left.iter().map(|(key, object)| holds::going(key, object, observed.as_of)).collect();
    let blocked = ends.iter().find(|outcome| matches!(outcome, Outcome::Blocked { .. }));
    blocked.or_else(|| ends.first()).cloned().map(Plan::ends)
}

fn is_anchor(order: &Order, key: &ResourceKey) -> bool {
    match &order.body {
        Body::Project => false,
        Body::Service(body) => names::anchor_ordinal(&body.object_name, &key.name).is_some(),
    }
}
