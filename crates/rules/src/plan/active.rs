//! Plans the objects of an active or paused unit.

use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Order, ServiceBody};

use super::anchors::{self, living_ordinal, release_bare_anchors, release_old_anchors};
use super::judge::{ObjectPlan, judge};
use super::{
    Action, ActionPlan, Observed, Ownership, delete, deletion_blockers, outdated_run, ownership,
    terminating,
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
        // Without decrypted values, a Secret would be written incomplete.
        return ActionPlan::wait("its secrets to be decrypted");
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
        observed.objects.get(&anchor.key).and_then(|live| render::current_anchor(live))
    else {
        return ActionPlan::wait("the anchor to be observed");
    };
    let prerequisites = render::service_prerequisites(order, body, &owner, proofs);
    if let Some(plan) = write_stage(order, observed, proofs, &prerequisites) {
        return plan;
    }
    let workload = render::service_workload(order, body, &owner, proofs);
    if let Some(plan) = remove_former(order, body, observed, proofs) {
        return plan;
    }
    let workload = keep_replicas(order, body, observed, keep_job_fields(observed, workload));
    let workload = outdated_run::replace(observed, workload);
    if let Some(plan) = write_stage(order, observed, proofs, &[workload]) {
        return plan;
    }
    let companions = render::service_companions(order, body, &owner, proofs);
    if let Some(plan) = write_stage(order, observed, proofs, &companions) {
        return plan;
    }
    release_old_anchors(order, body, observed, proofs, ordinal)
}

/// Deletes objects of earlier generations that this one does not want.
///
/// Such are the Job of an earlier spec, a closed endpoint, a disabled autoscaler, or objects of an
/// earlier template version. Data and variables stay.
///
/// The Secrets of removed hosts come last: cert-manager would issue the certificate again for a
/// Certificate that still exists.
fn remove_former(
    order: &Order,
    body: &ServiceBody,
    observed: &Observed,
    proofs: &ProofKey,
) -> Option<ActionPlan> {
    let wanted = render::keys(order);
    let is_secret = |key: &ResourceKey| render::is_certificate_secret(body, key);
    let (secrets, others): (Vec<_>, Vec<_>) = observed
        .objects
        .iter()
        .map(|(key, object)| (key, &**object))
        .filter(|(key, _)| is_prunable(key.kind) || is_secret(key))
        .filter(|(key, _)| !wanted.contains(*key) && is_permitted(order, key))
        .filter(|(key, object)| ownership(order, key, object, proofs) == Ownership::Ours)
        .partition(|(key, _)| is_secret(key));
    let former: Vec<(&ResourceKey, &Value)> = if others.is_empty() { secrets } else { others };
    let (key, _) = former.first()?;
    let deletes: Vec<Action> =
        former.iter().filter(|(_, it)| !terminating(it)).map(|(key, it)| delete(key, it)).collect();
    Some(if deletes.is_empty() {
        ActionPlan::wait(format!("{key} to be gone"))
    } else {
        ActionPlan::act(deletes)
    })
}

/// Whether all unwanted objects of a kind are deleted. Data and variables stay, and anchors are
/// released separately.
const fn is_prunable(kind: Kind) -> bool {
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

/// Keeps the replicas that an autoscaler set.
///
/// The write repeats the live number and is guarded by the uid and version it was read from. So the
/// field is never dropped, which would leave one pod, and never reset to an older number. An
/// autoscaler ignores a workload with zero replicas, so the first number is set here.
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
    let current = live.and_then(|live| live["spec"]["replicas"].as_u64()).filter(|n| *n > 0);
    workload.object["spec"]["replicas"] = current.unwrap_or_else(|| u64::from(start)).into();
    if let Some(live) = live {
        for guard in ["uid", "resourceVersion"] {
            workload.object["metadata"][guard] = live["metadata"][guard].clone();
        }
    }
    workload
}

/// An object is deleted only with a record of the generation that no longer wants it.
fn is_permitted(order: &Order, key: &ResourceKey) -> bool {
    order.permit.unwanted.get(key).is_some_and(|since| *since <= order.generation)
}

/// Keeps the immutable fields of a live Job. So a new version of Trueup that renders pods
/// differently leaves runs of an earlier version alone.
fn keep_job_fields(observed: &Observed, mut workload: Rendered) -> Rendered {
    if let (Kind::Job, Some(live)) = (workload.key.kind, observed.objects.get(&workload.key)) {
        for name in ["template", "completions", "completionMode"] {
            if let Some(kept) = live["spec"].get(name) {
                workload.object["spec"][name] = kept.clone();
            }
        }
    }
    workload
}

/// The plan for a stage that is not converged; `None` if it is.
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
