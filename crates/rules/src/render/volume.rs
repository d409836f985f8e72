//! Claims for workloads that keep state.
//!
//! Trueup writes each pod's claim itself, under the name that the StatefulSet controller expects,
//! so that the claim has our proof. Claims have no owner: data is never deleted with an anchor.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Order, ServiceBody};
use trueup_model::spec::{Volume, Workload};

use super::{Rendered, finish, metadata, quantity};
use crate::render::names;
use crate::render::proof::ProofKey;

pub(super) fn keys(order: &Order, body: &ServiceBody) -> BTreeSet<ResourceKey> {
    (0..count(body)).map(|ordinal| key(order, body, ordinal)).collect()
}

pub(super) fn claims(order: &Order, body: &ServiceBody, proofs: &ProofKey) -> Vec<Rendered> {
    let Some(volume) = &body.spec.volume else {
        return Vec::new();
    };
    (0..count(body))
        .map(|ordinal| {
            let key = key(order, body, ordinal);
            let claim = PersistentVolumeClaim {
                metadata: metadata(order, &key, proofs.object(order.unit, &key)),
                spec: Some(spec(volume)),
                ..PersistentVolumeClaim::default()
            };
            finish(key, &claim)
        })
        .collect()
}

/// The number of claims: one for each pod of a StatefulSet; runs of a cron or a job share one.
fn count(body: &ServiceBody) -> u32 {
    match (&body.spec.volume, body.spec.workload) {
        (None, _) | (Some(_), Workload::Deployment) => 0,
        (Some(_), Workload::StatefulSet) => body.spec.replicas,
        (Some(_), Workload::CronJob | Workload::Job) => 1,
    }
}

/// The spec of each pod's claim; also the claim template of the StatefulSet.
pub(super) fn spec(volume: &Volume) -> PersistentVolumeClaimSpec {
    PersistentVolumeClaimSpec {
        access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
        resources: Some(VolumeResourceRequirements {
            requests: Some(BTreeMap::from([(
                "storage".to_owned(),
                quantity::disk(volume.size_gib),
            )])),
            ..VolumeResourceRequirements::default()
        }),
        ..PersistentVolumeClaimSpec::default()
    }
}

fn key(order: &Order, body: &ServiceBody, ordinal: u32) -> ResourceKey {
    let name = names::claim(&body.object_name, ordinal);
    ResourceKey::new(Kind::PersistentVolumeClaim, &order.namespace, &name)
}
