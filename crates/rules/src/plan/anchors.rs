//! Anchors: which one owns the children, when one is released, and how one reveals an outdated
//! database.

use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Body, Order, ServiceBody};

use super::{Action, ActionPlan, Observed, Ownership, ownership, terminating, uid_and_version};
use crate::render;
use crate::render::names;
use crate::render::proof::ProofKey;

/// The error if an anchor proves that a newer generation than the order's was applied.
///
/// Only Trueup can write such an anchor, so the database went back in time: a restored backup, or a
/// standby that lagged behind. The lost generations are unknown, so nothing is written or deleted.
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
            "{key} proves that generation {generation} was applied, but the database has only \
             generation {}: the database is older than the cluster; if it was restored, change the \
             service until its generation is past {generation}, and that spec is applied",
            order.generation
        )
    })
}

/// The anchor that owns the children: the newest that is not being deleted.
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
            let usable = observed.objects.get(&key).is_none_or(|live| !terminating(live));
            usable && order.recorded.contains_key(&key)
        })
        .ok_or_else(|| ActionPlan::wait("an order that names the next anchor"))
}

/// Releases every anchor in a namespace that is being deleted, even with dependents.
///
/// The dependents are deleted with the namespace. No new anchor can be created there, and our
/// finalizer would block the deletion of the namespace and of the project.
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

/// Releases anchors that are being deleted and have no dependents left: while its project is not
/// ready, a service gets no new anchor.
pub(super) fn release_bare_anchors(
    order: &Order,
    body: &ServiceBody,
    observed: &Observed,
    proofs: &ProofKey,
) -> Option<ActionPlan> {
    let has_dependents = |uid: &Value| {
        observed.objects.values().any(|object| {
            object["metadata"]["ownerReferences"]
                .as_array()
                .is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == *uid))
        })
    };
    let releases: Vec<Action> = anchors(order, body, observed, proofs)
        .filter(|(_, anchor)| !has_dependents(&anchor["metadata"]["uid"]))
        .filter_map(|(key, anchor)| release(key, anchor))
        .collect();
    (!releases.is_empty()).then(|| ActionPlan::act(releases))
}

/// Releases anchors that were deleted externally, once the next one owns their children.
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

/// The service's observed anchors that are ours.
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
        .filter(|(key, live)| ownership(order, key, live, proofs) == Ownership::Ours)
}

/// Removes our finalizer from an anchor that is being deleted.
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
    let (uid, version) = uid_and_version(anchor);
    let finalizers = finalizers.into_iter().filter(|f| f != names::ANCHOR_FINALIZER).collect();
    Some(Action::ReleaseAnchor { key: key.clone(), uid, version, finalizers })
}
