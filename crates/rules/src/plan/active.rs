//! Plans the objects of an active or paused unit.

use std::slice;

use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Order, ServiceBody};

use super::anchors::{self, living_ordinal, release_bare_anchors, release_old_anchors};
use super::former::Former;
use super::keep::{keep_job_fields, keep_replicas};
use super::keep_claims::{Split, keep_claim_templates, split_growing};
use super::stages::Stages;
use super::{
    Action, ActionPlan, Observed, Ownership, delete, outdated_run, ownership, terminating,
};
use crate::render;
use crate::render::proof::ProofKey;

pub(super) fn project(order: &Order, observed: &Observed, proofs: &ProofKey) -> ActionPlan {
    let objects = render::project(order, proofs);
    // The namespace first: nothing else can be written without it.
    let (namespace, guards) = objects.split_at(1);
    let mut stages = Stages::new(order, observed, proofs);
    stages.write(namespace);
    stages.write(guards);
    stages.end(ActionPlan::converged)
}

pub(super) fn service(
    order: &Order,
    body: &ServiceBody,
    former: Option<&Order>,
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
    let mut stages = Stages::new(order, observed, proofs);
    let anchor = render::service_anchor(order, body, ordinal, proofs);
    stages.write(slice::from_ref(&anchor));
    let is_ours = |live: &Value| {
        stages.are_converged() || ownership(order, &anchor.key, live, proofs) == Ownership::Ours
    };
    let live = observed.objects.get(&anchor.key).filter(|live| is_ours(live));
    let Some(owner) = live.and_then(|live| render::current_anchor(live)) else {
        return stages.end(|| ActionPlan::wait("the anchor to be observed"));
    };
    if let Some(former) = former {
        stages.set_former(Former::of_service(former, &owner, proofs));
    }
    let prerequisites = render::service_prerequisites(order, body, &owner, proofs);
    let Split { before, growing } = split_growing(order, observed, proofs, prerequisites);
    stages.write(&before);
    stages.then(|| remove_former(order, body, observed, proofs));
    let workload = render::service_workload(order, body, &owner, proofs);
    let workload = keep_replicas(order, body, observed, keep_job_fields(observed, workload));
    let workload = keep_claim_templates(observed, outdated_run::replace(observed, workload));
    stages.write(slice::from_ref(&workload));
    stages.write(&render::service_companions(order, body, &owner, proofs));
    stages.write(&growing);
    stages.end(|| release_old_anchors(order, body, observed, proofs, ordinal))
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

/// An object is deleted only with a record of the generation that no longer wants it.
fn is_permitted(order: &Order, key: &ResourceKey) -> bool {
    order.permit.unwanted.get(key).is_some_and(|since| *since <= order.generation)
}
