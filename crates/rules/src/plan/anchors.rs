//! Anchors: which one the children hang from, when one may go, and what one knows that the database
//! does not.

use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Body, Order, ServiceBody};

use super::{Action, ActionPlan, Observed, Ownership, incarnation, ownership, terminating};
use crate::render;
use crate::render::names;
use crate::render::proof::ProofKey;

/// Says so if an anchor proves that this service was told a newer generation than the order has.
///
/// Nobody but Trueup can write such an anchor, so it is the database that went back in time: a
/// restored backup, or a standby that had not heard the end. What the lost generations said is not
/// known, so nothing is written, and above all nothing is deleted.
pub(super) fn ahead(order: &Order, observed: &Observed, proofs: &ProofKey) -> Option<String> {
    let Body::Service(body) = &order.body else {
        return None;
    };
    let (generation, key) = order
        .recorded
        .keys()
        .filter(|key| key.kind == Kind::ConfigMap)
        .filter(|key| names::anchor_ordinal(&body.object_name, &key.name).is_some())
        .filter_map(|key| {
            let proof = &observed.objects.get(key)?["metadata"]["annotations"];
            let proof = proof[names::PROOF_ANNOTATION].as_str()?;
            Some((proofs.anchor_generation(order.unit, key, proof)?, key))
        })
        .max()?;
    (generation > order.generation).then(|| {
        format!(
            "{key} proves that generation {generation} was applied, and the database knows only {}: it \
             is older than the cluster; if it was restored, change the service until its generation is \
             past {generation}, and what you ask for then is applied",
            order.generation
        )
    })
}

/// Which anchor the children shall hang from: the newest that nobody is deleting.
pub(super) fn living_ordinal(
    order: &Order,
    body: &ServiceBody,
    observed: &Observed,
) -> Result<u32, ActionPlan> {
    let newest = render::next_ordinal(order, body);
    (newest..=newest.saturating_add(1))
        .find(|ordinal| {
            let name = names::anchor(&body.object_name, *ordinal);
            let key = ResourceKey::new(Kind::ConfigMap, &order.namespace, &name);
            let usable = observed.objects.get(&key).is_none_or(|seen| !terminating(seen));
            usable && order.recorded.contains_key(&key)
        })
        .ok_or_else(|| ActionPlan::wait("an order that names the next anchor"))
}

/// Lets go of every anchor of a namespace that is being deleted, whatever hangs from it: all of that
/// goes with the namespace. Nothing new can be made there, so no next anchor ever comes, and our
/// finalizer would be what keeps the namespace, and with it the project, from ending.
pub(super) fn release_all(
    order: &Order,
    body: &ServiceBody,
    observed: &Observed,
    proofs: &ProofKey,
) -> Option<ActionPlan> {
    let releases: Vec<Action> = anchors(order, body, observed, proofs)
        .filter_map(|(key, anchor)| release(key, anchor))
        .collect();
    (!releases.is_empty()).then(|| ActionPlan::act(releases))
}

/// Lets go of anchors that are being deleted and from which nothing hangs any more: while its project
/// is not ready a service gets no next anchor.
pub(super) fn release_bare_anchors(
    order: &Order,
    body: &ServiceBody,
    observed: &Observed,
    proofs: &ProofKey,
) -> Option<ActionPlan> {
    let hangs = |uid: &Value| {
        observed.objects.values().any(|object| {
            object["metadata"]["ownerReferences"]
                .as_array()
                .is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == *uid))
        })
    };
    let releases: Vec<Action> = anchors(order, body, observed, proofs)
        .filter(|(_, anchor)| !hangs(&anchor["metadata"]["uid"]))
        .filter_map(|(key, anchor)| release(key, anchor))
        .collect();
    (!releases.is_empty()).then(|| ActionPlan::act(releases))
}

/// Anchors that were deleted from outside may go once their children hang from the next one.
pub(super) fn release_old_anchors(
    order: &Order,
    body: &ServiceBody,
    observed: &Observed,
    proofs: &ProofKey,
    living: u32,
) -> ActionPlan {
    let releases: Vec<Action> = anchors(order, body, observed, proofs)
        .filter(|(key, _)| {
            names::anchor_ordinal(&body.object_name, &key.name).is_some_and(|n| n != living)
        })
        .filter_map(|(key, anchor)| release(key, anchor))
        .collect();
    if releases.is_empty() { ActionPlan::converged() } else { ActionPlan::act(releases) }
}

/// The service's anchors that were seen and are ours.
fn anchors<'a>(
    order: &'a Order,
    body: &'a ServiceBody,
    observed: &'a Observed,
    proofs: &'a ProofKey,
) -> impl Iterator<Item = (&'a ResourceKey, &'a Value)> {
    order
        .recorded
        .keys()
        .filter(|key| names::anchor_ordinal(&body.object_name, &key.name).is_some())
        .filter_map(|key| Some((key, &**observed.objects.get(key)?)))
        .filter(|(key, seen)| ownership(order, key, seen, proofs) == Ownership::Ours)
}

/// Takes our finalizer off an anchor that is being deleted and still carries it.
pub(super) fn release(key: &ResourceKey, anchor: &Value) -> Option<Action> {
    let finalizers: Vec<String> = anchor["metadata"]["finalizers"]
        .as_array()?
        .iter()
        .filter_map(|finalizer| finalizer.as_str().map(str::to_owned))
        .collect();
    let ours = finalizers.iter().any(|finalizer| finalizer == names::ANCHOR_FINALIZER);
    if !(ours && terminating(anchor)) {
        return None;
    }
    let (uid, version) = incarnation(anchor);
    let finalizers = finalizers.into_iter().filter(|f| f != names::ANCHOR_FINALIZER).collect();
    Some(Action::ReleaseAnchor { key: key.clone(), uid, version, finalizers })
}
