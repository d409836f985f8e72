//! Planning absence: workloads and their parts first, the anchor last, then proof.

use trueup_model::key::ResourceKey;
use trueup_model::order::{Body, Order};

use super::anchors::release;
use super::{Action, Observed, Ownership, Plan, delete, ownership, terminating};
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
    if let Some((key, _)) = children.first() {
        return Plan::wait(format!("{key} to be gone"));
    }
    if !observed.pods.is_empty() {
        return Plan::wait(match observed.pods.len() {
            1 => "1 pod to be gone".to_owned(),
            number => format!("{number} pods to be gone"),
        });
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
    if let Some((key, _)) = anchors.first() {
        return Plan::wait(format!("{key} to be gone"));
    }
    Plan::act(vec![Action::VerifyAbsence])
}

fn is_anchor(order: &Order, key: &ResourceKey) -> bool {
    match &order.body {
        Body::Project => false,
        Body::Service(body) => names::anchor_ordinal(&body.object_name, &key.name).is_some(),
    }
}
