//! Variables and secrets, as the ConfigMap and Secret that the containers read.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Order, ServiceBody};

use super::{Rendered, child_metadata, digest, finish};
use crate::names;
use crate::proof::ProofKey;

pub(super) fn variables(
    order: &Order,
    body: &ServiceBody,
    owner: &OwnerReference,
    proofs: &ProofKey,
) -> Rendered {
    let name = names::config(&body.object_name);
    let key = ResourceKey::new(Kind::ConfigMap, &order.namespace, &name);
    let config = ConfigMap {
        metadata: child_metadata(order, &key, owner, proofs),
        data: Some(body.spec.variables.clone()),
        ..ConfigMap::default()
    };
    finish(key, &config)
}

pub(super) fn secrets(
    order: &Order,
    body: &ServiceBody,
    owner: &OwnerReference,
    proofs: &ProofKey,
) -> Option<Rendered> {
    if body.spec.generated_secrets.is_empty() {
        return None;
    }
    let name = names::secret(&body.object_name);
    let key = ResourceKey::new(Kind::Secret, &order.namespace, &name);
    let data: BTreeMap<String, ByteString> = body
        .secrets
        .iter()
        .map(|(name, value)| (name.clone(), ByteString(value.reveal().as_bytes().to_vec())))
        .collect();
    let secret = Secret {
        metadata: child_metadata(order, &key, owner, proofs),
        type_: Some("Opaque".to_owned()),
        data: Some(data),
        ..Secret::default()
    };
    Some(finish(key, &secret))
}

/// A digest of everything the containers read, so that pods roll when it changes.
pub(super) fn fingerprint(body: &ServiceBody) -> String {
    let secrets: BTreeMap<&String, &str> =
        body.secrets.iter().map(|(name, value)| (name, value.reveal())).collect();
    digest(&json!({ "variables": body.spec.variables, "secrets": secrets }))
}
