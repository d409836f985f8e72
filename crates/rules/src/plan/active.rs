//! Planning what shall be there.

use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Order, ServiceBody};

use super::anchors::{self, living_ordinal, release_bare_anchors, release_old_anchors};
use super::judge::{ObjectPlan, judge};
use super::{
    Action, ActionPlan, Observed, Ownership, delete, deletion_blockers, ownership, terminating,
};
use crate::render::proof::ProofKey;
use crate::render::{self, Rendered};

pub(super) fn project(order: &Order, observed: &Observed, proofs: &ProofKey) -> ActionPlan {
    let objects = render::project(order, proofs);
    // The namespace first: nothing else can be written without it.
    let (namespace, guards) = objects.split_at(1);
    for stage in [namespace, guards] {
        if let Some(plan) = write_stage(order, observed, proofs, stage) {
            return plan;
        }
    }
    ActionPlan::converged()
}

pub(super) fn service(
    order: &Order,
    body: &ServiceBody,
    observed: &Observed,
    proofs: &ProofKey,
) -> ActionPlan {
    if !body.sealed.is_empty() {
        // Nobody may write a Secret without what belongs into it.
        return ActionPlan::wait("its secrets to be opened");
    }
    if observed.namespace_ending {
        return anchors::release_all(order, body, observed, proofs)
            .unwrap_or_else(|| ActionPlan::wait("the namespace to be gone"));
    }
    if !observed.project_ready {
        return release_bare_anchors(order, body, observed, proofs)
            .unwrap_or_else(|| ActionPlan::wait("the project's namespace and policies"));
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
        return ActionPlan::wait("the anchor to be seen");
    };
    let prerequisites = render::service_prerequisites(order, body, &owner, proofs);
    if let Some(plan) = write_stage(order, observed, proofs, &prerequisites) {
        return plan;
    }
    let workload = render::service_workload(order, body, &owner, proofs);
    if let Some(plan) = remove_former(order, observed, proofs) {
        return plan;
    }
    let workload = keep_replicas(order, body, observed, fixed(observed, workload));
    if let Some(plan) = write_stage(order, observed, proofs, &[workload]) {
        return plan;
    }
    let companions = render::service_companions(order, body, &owner, proofs);
    if let Some(plan) = write_stage(order, observed, proofs, &companions) {
        return plan;
    }
    release_old_anchors(order, body, observed, proofs, ordinal)
}

/// Takes away what a former generation had and this one has not: the Job of another ask, an endpoint
/// that was closed, an autoscaler that was switched off, or what a template was before its next
/// version. Data and variables stay.
fn remove_former(order: &Order, observed: &Observed, proofs: &ProofKey) -> Option<ActionPlan> {
    let wanted = render::keys(order);
    let former: Vec<(&ResourceKey, &Value)> = observed
        .objects
        .iter()
        .map(|(key, object)| (key, &**object))
        .filter(|(key, _)| may_go(key.kind))
        .filter(|(key, _)| !wanted.contains(*key) && is_permitted(order, key))
        .filter(|(key, object)| ownership(order, key, object, proofs) == Ownership::Ours)
        .collect();
    let (key, _) = former.first()?;
    let going: Vec<Action> =
        former.iter().filter(|(_, it)| !terminating(it)).map(|(key, it)| delete(key, it)).collect();
    Some(if going.is_empty() {
        ActionPlan::wait(format!("{key} to be gone"))
    } else {
        ActionPlan::act(going)
    })
}

/// Whether objects of a kind go when they are not wanted any more. What holds data or variables
/// stays, and anchors go in their own way.
const fn may_go(kind: Kind) -> bool {
    match kind {
        Kind::Deployment
        | Kind::StatefulSet
        | Kind::CronJob
        | Kind::Job
        | Kind::Service
        | Kind::NetworkPolicy
        | Kind::PodDisruptionBudget
        | Kind::HorizontalPodAutoscaler
        | Kind::Ingress
        | Kind::HttpRoute
        | Kind::Certificate
        | Kind::ServiceMonitor => true,
        Kind::Namespace
        | Kind::ResourceQuota
        | Kind::LimitRange
        | Kind::ServiceAccount
        | Kind::RoleBinding
        | Kind::ConfigMap
        | Kind::Secret
        | Kind::PersistentVolumeClaim
        | Kind::Pod
        | Kind::PersistentVolume
        | Kind::Node => false,
    }
}

/// Where an autoscaler says how many pods there are, we say what stands, and only while it stands:
/// the write names the incarnation and version it was made from. So the number is never dropped,
/// which would leave one pod, and never put back to what it was before the autoscaler changed it.
///
/// An autoscaler leaves a workload without pods alone, so the first number is ours to say.
fn keep_replicas(
    order: &Order,
    body: &ServiceBody,
    observed: &Observed,
    mut workload: Rendered,
) -> Rendered {
    let Some(start) = render::starting_replicas(order, body) else {
        return workload;
    };
    let live = observed.objects.get(&workload.key);
    let standing = live.and_then(|live| live["spec"]["replicas"].as_u64()).filter(|n| *n > 0);
    workload.object["spec"]["replicas"] = standing.unwrap_or_else(|| u64::from(start)).into();
    if let Some(live) = live {
        for guard in ["uid", "resourceVersion"] {
            workload.object["metadata"][guard] = live["metadata"][guard].clone();
        }
    }
    workload
}

/// Nothing is pruned without a record of the generation that stopped wanting it.
fn is_permitted(order: &Order, key: &ResourceKey) -> bool {
    order.permit.unwanted.get(key).is_some_and(|since| *since <= order.generation)
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

/// The plan for the first stage that is not as it should be, or nothing if all of it is.
fn write_stage(
    order: &Order,
    observed: &Observed,
    proofs: &ProofKey,
    stage: &[Rendered],
) -> Option<ActionPlan> {
    let mut actions = Vec::new();
    let mut waits = Vec::new();
    for rendered in stage.iter().filter(|one| !observed.missing.contains_key(&one.key.kind)) {
        match judge(order, observed, proofs, rendered) {
            ObjectPlan::Fine => {}
            ObjectPlan::Act(action) => actions.push(*action),
            ObjectPlan::Wait => {
                let live = observed.objects.get(&rendered.key).map(|live| &**live);
                waits.push(deletion_blockers::ending(&rendered.key, live));
            }
            ObjectPlan::Blocked(why) => return Some(ActionPlan::blocked(why)),
        }
    }
    if !actions.is_empty() {
        Some(ActionPlan::act(actions))
    } else if !waits.is_empty() {
        Some(ActionPlan::wait(waits.join(", ")))
    } else {
        None
    }
}
