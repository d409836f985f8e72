//! Planning what shall be there.

use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Order, ServiceBody};

use super::judge::{Verdict, judge};
use super::{Action, Observed, Ownership, Plan, delete, incarnation, ownership, terminating};
use crate::names;
use crate::proof::ProofKey;
use crate::render::{self, Rendered};

pub(super) fn project(order: &Order, observed: &Observed, proofs: &ProofKey) -> Plan {
    let objects = render::project(order, proofs);
    // The namespace first: nothing else can be written without it.
    let (namespace, guards) = objects.split_at(1);
    for stage in [namespace, guards] {
        if let Some(plan) = write_stage(order, observed, proofs, stage) {
            return plan;
        }
    }
    Plan::converged()
}

pub(super) fn service(
    order: &Order,
    body: &ServiceBody,
    observed: &Observed,
    proofs: &ProofKey,
) -> Plan {
    if !body.sealed.is_empty() {
        // Nobody may write a Secret without what belongs into it.
        return Plan::wait("its secrets to be opened");
    }
    if !observed.project_ready {
        return release_bare_anchors(order, body, observed, proofs)
            .unwrap_or_else(|| Plan::wait("the project's namespace and policies"));
    }
    let ordinal = match living_ordinal(order, body, observed) {
        Ok(ordinal) => ordinal,
        Err(plan) => return plan,
    };
    let anchor = render::service_anchor(order, body, ordinal, proofs);
    if let Some(plan) = write_stage(order, observed, proofs, std::slice::from_ref(&anchor)) {
        return plan;
    }
    let Some(owner) =
        observed.objects.get(&anchor.key).and_then(|seen| render::current_anchor(seen))
    else {
        return Plan::wait("the anchor to be seen");
    };
    let prerequisites = render::service_prerequisites(order, body, &owner, proofs);
    if let Some(plan) = write_stage(order, observed, proofs, &prerequisites) {
        return plan;
    }
    let workload = render::service_workload(order, body, &owner, proofs);
    if let Some(plan) = remove_former(order, observed, proofs) {
        return plan;
    }
    if let Some(plan) = write_stage(order, observed, proofs, &[fixed(observed, workload)]) {
        return plan;
    }
    release_old_anchors(order, body, observed, proofs, ordinal)
}

/// Takes away workloads, addresses and openings that a former generation had and this one has not:
/// the Job of another ask, an endpoint that was closed, or what a template was before its next
/// version. Data and variables stay.
fn remove_former(order: &Order, observed: &Observed, proofs: &ProofKey) -> Option<Plan> {
    let wanted = render::keys(order);
    let former: Vec<(&ResourceKey, &Value)> = observed
        .objects
        .iter()
        .map(|(key, object)| (key, &**object))
        .filter(|(key, _)| {
            key.kind.is_workload() || matches!(key.kind, Kind::Service | Kind::NetworkPolicy)
        })
        .filter(|(key, _)| !wanted.contains(*key))
        .filter(|(key, object)| ownership(order, key, object, proofs) == Ownership::Ours)
        .collect();
    let (key, _) = former.first()?;
    let going: Vec<Action> =
        former.iter().filter(|(_, it)| !terminating(it)).map(|(key, it)| delete(key, it)).collect();
    Some(if going.is_empty() { Plan::wait(format!("{key} to be gone")) } else { Plan::act(going) })
}

/// What stands of a Job cannot be changed and cannot drift, so it is taken as it is. A release of
/// Trueup that writes pods in another way leaves runs alone that were begun by an earlier one.
fn fixed(observed: &Observed, mut workload: Rendered) -> Rendered {
    if let (Kind::Job, Some(live)) = (workload.key.kind, observed.objects.get(&workload.key)) {
        for name in ["template", "completions"] {
            if let Some(kept) = live["spec"].get(name) {
                workload.object["spec"][name] = kept.clone();
            }
        }
    }
    workload
}

/// Which anchor the children shall hang from: the newest that nobody is deleting.
fn living_ordinal(order: &Order, body: &ServiceBody, observed: &Observed) -> Result<u32, Plan> {
    let newest = render::next_ordinal(order, body);
    (newest..=newest.saturating_add(1))
        .find(|ordinal| {
            let name = names::anchor(&body.object_name, *ordinal);
            let key = ResourceKey::new(Kind::ConfigMap, &order.namespace, &name);
            let usable = observed.objects.get(&key).is_none_or(|seen| !terminating(seen));
            usable && order.recorded.contains_key(&key)
        })
        .ok_or_else(|| Plan::wait("an order that names the next anchor"))
}

/// Lets go of anchors that are being deleted and from which nothing hangs any more.
///
/// In a namespace that is being deleted nothing new can be made, so no next anchor ever comes, and
/// our finalizer would be what keeps the namespace, and with it the project, from ending.
fn release_bare_anchors(
    order: &Order,
    body: &ServiceBody,
    observed: &Observed,
    proofs: &ProofKey,
) -> Option<Plan> {
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
    (!releases.is_empty()).then(|| Plan::act(releases))
}

/// Anchors that were deleted from outside may go once their children hang from the next one.
fn release_old_anchors(
    order: &Order,
    body: &ServiceBody,
    observed: &Observed,
    proofs: &ProofKey,
    living: u32,
) -> Plan {
    let releases: Vec<Action> = anchors(order, body, observed, proofs)
        .filter(|(key, _)| {
            names::anchor_ordinal(&body.object_name, &key.name).is_some_and(|n| n != living)
        })
        .filter_map(|(key, anchor)| release(key, anchor))
        .collect();
    if releases.is_empty() { Plan::converged() } else { Plan::act(releases) }
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

/// The plan for the first stage that is not as it should be, or nothing if all of it is.
fn write_stage(
    order: &Order,
    observed: &Observed,
    proofs: &ProofKey,
    stage: &[Rendered],
) -> Option<Plan> {
    let mut actions = Vec::new();
    let mut waits = Vec::new();
    for rendered in stage {
        match judge(order, observed, proofs, rendered) {
            Verdict::Fine => {}
            Verdict::Act(action) => actions.push(*action),
            Verdict::Wait => waits.push(format!("{} to finish terminating", rendered.key)),
            Verdict::Blocked(why) => return Some(Plan::blocked(why)),
        }
    }
    if !actions.is_empty() {
        Some(Plan::act(actions))
    } else if !waits.is_empty() {
        Some(Plan::wait(waits.join(", ")))
    } else {
        None
    }
}
