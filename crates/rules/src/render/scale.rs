//! The PodDisruptionBudget, which limits how many pods a drain evicts at once, and the autoscaler.

use std::collections::BTreeSet;

use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, MetricSpec,
    MetricTarget, ResourceMetricSource,
};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Order, ServiceBody};
use trueup_model::service::DesiredState;
use trueup_model::spec::{Autoscale, Workload};

use super::workload::{self, pod_labels};
use super::{Rendered, child_metadata, finish};
use crate::render::proof::ProofKey;

pub(super) fn keys(order: &Order, body: &ServiceBody) -> BTreeSet<ResourceKey> {
    let at = |kind| ResourceKey::new(kind, &order.namespace, &body.object_name);
    let budget = has_budget(body).then(|| at(Kind::PodDisruptionBudget));
    let autoscaler = autoscale(order, body).map(|_| at(Kind::HorizontalPodAutoscaler));
    budget.into_iter().chain(autoscaler).collect()
}

/// The autoscaling settings in effect. A paused service has none: Trueup sets zero replicas, which
/// an autoscaler ignores.
pub(super) const fn autoscale<'a>(order: &Order, body: &'a ServiceBody) -> Option<&'a Autoscale> {
    match order.desired {
        DesiredState::Active => body.spec.autoscale.as_ref(),
        DesiredState::Paused | DesiredState::Deleted => None,
    }
}

/// Whether there is a budget. With a single pod it would block every drain.
const fn has_budget(body: &ServiceBody) -> bool {
    match body.spec.workload {
        Workload::Deployment | Workload::StatefulSet => body.spec.most_replicas() >= 2,
        Workload::CronJob | Workload::Job => false,
    }
}

pub(super) fn budget(
    order: &Order,
    body: &ServiceBody,
    owner: &OwnerReference,
    proofs: &ProofKey,
) -> Option<Rendered> {
    if !has_budget(body) {
        return None;
    }
    let key = ResourceKey::new(Kind::PodDisruptionBudget, &order.namespace, &body.object_name);
    let budget = PodDisruptionBudget {
        metadata: child_metadata(order, &key, owner, proofs),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(LabelSelector {
                match_labels: Some(pod_labels(body)),
                ..LabelSelector::default()
            }),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    };
    Some(finish(key, &budget))
}

pub(super) fn autoscaler(
    order: &Order,
    body: &ServiceBody,
    owner: &OwnerReference,
    proofs: &ProofKey,
) -> Option<Rendered> {
    let autoscale = autoscale(order, body)?;
    let key = ResourceKey::new(Kind::HorizontalPodAutoscaler, &order.namespace, &body.object_name);
    let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    let target = workload::key(order, body);
    let autoscaler = HorizontalPodAutoscaler {
        metadata: child_metadata(order, &key, owner, proofs),
        spec: HorizontalPodAutoscalerSpec {
            min_replicas: Some(number(autoscale.min)),
            max_replicas: number(autoscale.max),
            scale_target_ref: CrossVersionObjectReference {
                api_version: Some(target.kind.api_version().to_owned()),
                kind: target.kind.to_string(),
                name: target.name,
            },
            metrics: Some(vec![MetricSpec {
                type_: "Resource".to_owned(),
                resource: Some(ResourceMetricSource {
                    name: "cpu".to_owned(),
                    target: MetricTarget {
                        type_: "Utilization".to_owned(),
                        average_utilization: Some(number(autoscale.cpu_percent)),
                        ..MetricTarget::default()
                    },
                }),
                ..MetricSpec::default()
            }]),
            ..HorizontalPodAutoscalerSpec::default()
        },
        ..HorizontalPodAutoscaler::default()
    };
    Some(finish(key, &autoscaler))
}
