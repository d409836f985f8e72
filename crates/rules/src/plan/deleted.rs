//! Plans a deletion: workloads and their parts first, the anchor last, then verified absence.

use std::sync::Arc;

use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Body, Order};
use trueup_model::report::Outcome;

use super::anchors::release;
use super::{
    Action, ActionPlan, Observed, Ownership, delete, deletion_blockers, ownership, terminating,
};
use crate::render::names;
use crate::render::proof::ProofKey;

pub(super) fn plan(order: &Order, observed: &Observed, proofs: &ProofKey) -> ActionPlan {
    if matches!(order.body, Body::Project) {
        return project(order, observed, proofs);
    }
    let (anchors, children): (Vec<_>, Vec<_>) = observed
        .objects
        .iter()
        .filter(|(key, object)| ownership(order, key, object, proofs) == Ownership::Ours)
        .partition(|(key, _)| is_anchor(order, key));

    let deletes: Vec<Action> = children
        .iter()
        .filter(|(_, object)| !terminating(object))
        .map(|(key, object)| delete(key, object))
        .collect();
    if !deletes.is_empty() {
        return ActionPlan::act(deletes);
    }
    if let Some(plan) = remaining(&children, observed) {
        return plan;
    }
    if !observed.pods.is_empty() {
        return ActionPlan::ends(deletion_blockers::pods(
            observed.pods.iter().map(|pod| &**pod),
            observed.as_of,
        ));
    }

    let last: Vec<Action> = anchors
        .iter()
        .filter_map(|(key, anchor)| {
            if terminating(anchor) { release(key, anchor) } else { Some(delete(key, anchor)) }
        })
        .collect();
    if !last.is_empty() {
        return ActionPlan::act(last);
    }
    remaining(&anchors, observed).unwrap_or_else(|| ActionPlan::act(vec![Action::VerifyAbsence]))
}

/// How many services a message names; the rest is counted.
const NAMED: usize = 5;

/// Deletes a project's namespace, after its services. Its policies are deleted with it.
///
/// Whether the namespace contains anything else, only a live survey tells: the executor runs one
/// before it acts on this plan.
fn project(order: &Order, observed: &Observed, proofs: &ProofKey) -> ActionPlan {
    let tenants = &order.permit.tenants;
    if !tenants.is_empty() {
        let names: Vec<&str> = tenants.iter().take(NAMED).map(String::as_str).collect();
        let more = tenants.len().saturating_sub(NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        return ActionPlan::wait(format!("its services to be gone: {}{more}", names.join(", ")));
    }
    let key = ResourceKey::new(Kind::Namespace, "", &order.namespace);
    let ours = |live: &&Arc<Value>| ownership(order, &key, live, proofs) == Ownership::Ours;
    match observed.objects.get(&key).filter(ours) {
        None => ActionPlan::act(vec![Action::VerifyAbsence]),
        Some(live) if terminating(live) => {
            ActionPlan::ends(deletion_blockers::outcome(&key, live, observed.as_of))
        }
        Some(live) => ActionPlan::act(vec![delete(&key, live)]),
    }
}

/// The outcome for objects that are still terminating: the first one that is blocked, else the
/// first.
fn remaining(left: &[(&ResourceKey, &Arc<Value>)], observed: &Observed) -> Option<ActionPlan> {
    let ends: Vec<Outcome> = left
        .iter()
        .map(|(key, object)| deletion_blockers::outcome(key, object, observed.as_of))
        .collect();
    let blocked = ends.iter().find(|outcome| matches!(outcome, Outcome::Blocked { .. }));
    blocked.or_else(|| ends.first()).cloned().map(ActionPlan::ends)
}

fn is_anchor(order: &Order, key: &ResourceKey) -> bool {
    match &order.body {
        Body::Project => false,
        Body::Service(body) => names::anchor_ordinal(&body.object_name, &key.name).is_some(),
    }
}
