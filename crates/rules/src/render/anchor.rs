//! The anchor: the ConfigMap that owns a service's other objects.
//!
//! Its proof binds the last applied generation, which only Trueup can write. Its finalizer prevents
//! that an external delete cascades to the children before they have a new owner.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Order, ServiceBody};

use super::{Rendered, finish, metadata};
use crate::render::names;
use crate::render::proof::ProofKey;

pub(super) fn object(
    order: &Order,
    body: &ServiceBody,
    ordinal: u32,
    proofs: &ProofKey,
) -> Rendered {
    let name = names::anchor(&body.object_name, ordinal);
    let key = ResourceKey::new(Kind::ConfigMap, &order.namespace, &name);
    let proof = proofs.anchor(order.unit, &key, order.generation);
    let anchor = ConfigMap {
        metadata: ObjectMeta {
            finalizers: Some(vec![names::ANCHOR_FINALIZER.to_owned()]),
            ..metadata(order, &key, proof)
        },
        data: Some(BTreeMap::from([
            ("service".to_owned(), order.unit.to_string()),
            ("generation".to_owned(), order.generation.to_string()),
        ])),
        ..ConfigMap::default()
    };
    finish(key, &anchor)
}

/// The ordinal of the newest anchor with a recorded uid, or 1 for a service that never had one.
#[must_use]
pub fn next_ordinal(order: &Order, body: &ServiceBody) -> u32 {
    order
        .recorded
        .iter()
        .filter(|(key, uid)| key.kind == Kind::ConfigMap && uid.is_some())
        .filter_map(|(key, _)| names::anchor_ordinal(&body.object_name, &key.name))
        .max()
        .unwrap_or(1)
}

/// The owner reference for children, from an observed anchor.
#[must_use]
pub fn current(anchor: &Value) -> Option<OwnerReference> {
    let metadata = &anchor["metadata"];
    Some(OwnerReference {
        api_version: "v1".to_owned(),
        kind: Kind::ConfigMap.to_string(),
        name: metadata["name"].as_str()?.to_owned(),
        uid: metadata["uid"].as_str()?.to_owned(),
        ..OwnerReference::default()
    })
}
