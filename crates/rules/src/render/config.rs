//! Variables and secrets, as the ConfigMap and Secret that the containers read.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Order, ServiceBody};

use super::{Rendered, child_metadata, finish, finish_secret};
use crate::render::names;
use crate::render::proof::ProofKey;

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
    let name = names::secret(&body.object_name);
    let key = ResourceKey::new(Kind::Secret, &order.namespace, &name);
    // A Secret that was written before and has no values any more is emptied.
    let was_there = order.recorded.get(&key).is_some_and(Option::is_some);
    if !body.has_secrets() && !was_there {
        return None;
    }
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
    Some(finish_secret(order, key, &secret, proofs))
}

/// A digest of all variables and secrets, so that pods roll when one changes.
///
/// The digest is keyed: it covers secrets and is a readable annotation.
pub(super) fn fingerprint(order: &Order, body: &ServiceBody, proofs: &ProofKey) -> String {
    let secrets: BTreeMap<&String, &str> =
        body.secrets.iter().map(|(name, value)| (name, value.reveal())).collect();
    let read = json!({ "variables": body.spec.variables, "secrets": secrets });
    proofs.digest(order.unit, read.to_string().as_bytes())
}
