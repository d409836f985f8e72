//! From an order to the Kubernetes objects it stands for: typed values, no client.
//!
//! User text only ever becomes a leaf string of a typed value. The order of a list of objects is
//! the order in which they may be written: policies before pods, variables before their readers.

mod anchor;
mod config;
mod endpoint;
mod monitor;
pub mod names;
mod opening;
mod project;
pub mod proof;
mod quantity;
mod route;
mod runs;
mod scale;
pub mod secret;
mod volume;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Body, Order, ServiceBody};

use crate::render::proof::ProofKey;

pub use anchor::{current as current_anchor, next_ordinal};
pub use project::MOST_ENDPOINTS;

/// One object that shall be there.
#[derive(Clone, PartialEq)]
pub struct Rendered {
    /// Where.
    pub key: ResourceKey,
    /// What, complete but for what says when it was written: the generation label and the stamp.
    pub object: Value,
    /// A digest of it.
    pub digest: String,
}

impl fmt::Debug for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rendered({}, {})", self.key, shown(&self.key, &self.object))
    }
}

/// An object as it may be printed: of a Secret, only where it stands.
pub(crate) fn shown(key: &ResourceKey, object: &Value) -> String {
    if key.kind == Kind::Secret { "…".to_owned() } else { object.to_string() }
}

impl Rendered {
    /// The object as it is written for this order.
    #[must_use]
    pub fn stamped(&self, order: &Order, proofs: &ProofKey) -> Value {
        let mut object = self.object.clone();
        let stamp = proofs.stamp(order.unit, &self.key, &self.digest, order.generation);
        object["metadata"]["labels"][names::GENERATION_LABEL] =
            Value::String(order.generation.to_string());
        object["metadata"]["annotations"][names::DIGEST_ANNOTATION] = Value::String(stamp);
        object
    }
}

/// The objects of a project: the namespace first, then what guards it.
#[must_use]
pub fn project(order: &Order, key: &ProofKey) -> Vec<Rendered> {
    project::objects(order, key)
}

/// A service's anchor with this ordinal.
#[must_use]
pub fn service_anchor(order: &Order, body: &ServiceBody, ordinal: u32, key: &ProofKey) -> Rendered {
    anchor::object(order, body, ordinal, key)
}

/// What a service's workload needs to be there first: variables, secrets, claims, its address.
#[must_use]
pub fn service_prerequisites(
    order: &Order,
    body: &ServiceBody,
    owner: &OwnerReference,
    key: &ProofKey,
) -> Vec<Rendered> {
    let mut objects = vec![config::variables(order, body, owner, key)];
    objects.extend(config::secrets(order, body, owner, key));
    objects.extend(volume::claims(order, body, key));
    objects.extend(workload::address(order, body, owner, key));
    objects.extend(endpoint::objects(order, body, owner, key));
    objects.extend(scale::budget(order, body, owner, key));
    objects.extend(route::wall(order, body, owner, key));
    objects.extend(monitor::wall(order, body, owner, key));
    objects
}

/// A service's workload.
#[must_use]
pub fn service_workload(
    order: &Order,
    body: &ServiceBody,
    owner: &OwnerReference,
    key: &ProofKey,
) -> Rendered {
    workload::object(order, body, owner, key)
}

/// What goes with a service's workload once it is there: hosts that lead to it, who says how many
/// pods there are, and who reads its metrics.
#[must_use]
pub fn service_companions(
    order: &Order,
    body: &ServiceBody,
    owner: &OwnerReference,
    key: &ProofKey,
) -> Vec<Rendered> {
    let mut objects = route::objects(order, body, owner, key);
    objects.extend(scale::autoscaler(order, body, owner, key));
    objects.extend(monitor::object(order, body, owner, key));
    objects
}

/// How many pods a workload begins with whose number somebody else says; nothing where we say it.
#[must_use]
pub fn starting_replicas(order: &Order, body: &ServiceBody) -> Option<u32> {
    scale::autoscale(order, body).map(|autoscale| autoscale.start(body.spec.replicas))
}

/// Where a service's workload stands.
#[must_use]
pub fn workload_key(order: &Order, body: &ServiceBody) -> ResourceKey {
    workload::key(order, body)
}

/// Every key this order may touch, the next anchor included, so that they can be recorded first.
#[must_use]
pub fn keys(order: &Order) -> BTreeSet<ResourceKey> {
    match &order.body {
        Body::Project => project::keys(order),
        Body::Service(body) => {
            let at = |kind, name: &str| ResourceKey::new(kind, &order.namespace, name);
            let next = next_ordinal(order, body);
            let mut keys = BTreeSet::from([
                at(Kind::ConfigMap, &names::anchor(&body.object_name, next)),
                at(Kind::ConfigMap, &names::anchor(&body.object_name, next.saturating_add(1))),
                at(Kind::ConfigMap, &names::config(&body.object_name)),
                workload::key(order, body),
            ]);
            if workload::has_address(body) {
                keys.insert(at(Kind::Service, &body.object_name));
            }
            if body.has_secrets() {
                keys.insert(at(Kind::Secret, &names::secret(&body.object_name)));
            }
            keys.extend(volume::keys(order, body));
            keys.extend(endpoint::keys(order, body));
            keys.extend(scale::keys(order, body));
            keys.extend(route::keys(order, body));
            keys.extend(monitor::keys(order, body));
            keys
        }
    }
}

/// Recorded keys that this order does not want: what a former generation had.
#[must_use]
pub fn unwanted(order: &Order) -> BTreeSet<ResourceKey> {
    let wanted = keys(order);
    order.recorded.keys().filter(|key| !wanted.contains(*key)).cloned().collect()
}

/// Metadata with the labels and the proof that every object of ours carries.
fn metadata(order: &Order, key: &ResourceKey, proof: String) -> ObjectMeta {
    let mut labels = BTreeMap::from([
        (names::MANAGED_BY.to_owned(), names::MANAGER.to_owned()),
        (names::ORG_LABEL.to_owned(), order.org.to_string()),
        (names::PROJECT_LABEL.to_owned(), order.project.to_string()),
    ]);
    if let Body::Service(body) = &order.body {
        labels.insert(names::SERVICE_LABEL.to_owned(), order.unit.to_string());
        // '@' is no character of a label's value.
        let template = body.template.to_string().replace('@', ".v");
        labels.insert(names::TEMPLATE_LABEL.to_owned(), template);
    }
    ObjectMeta {
        name: Some(key.name.clone()),
        namespace: (!key.namespace.is_empty()).then(|| key.namespace.clone()),
        labels: Some(labels),
        annotations: Some(BTreeMap::from([(names::PROOF_ANNOTATION.to_owned(), proof)])),
        ..ObjectMeta::default()
    }
}

/// Metadata of an object that goes with its anchor.
fn child_metadata(
    order: &Order,
    key: &ResourceKey,
    owner: &OwnerReference,
    proofs: &ProofKey,
) -> ObjectMeta {
    ObjectMeta {
        owner_references: Some(vec![owner.clone()]),
        ..metadata(order, key, proofs.object(order.unit, key))
    }
}

/// Turns a typed object into JSON, with its digest beside it.
fn finish<T: Serialize>(key: ResourceKey, object: &T) -> Rendered {
    let object = serde_json::to_value(object).expect("a typed object should become JSON");
    let digest = digest(&object);
    Rendered { key, object, digest }
}

/// The same for an object that holds secrets: its digest needs the key.
fn finish_secret<T: Serialize>(
    order: &Order,
    key: ResourceKey,
    object: &T,
    proofs: &ProofKey,
) -> Rendered {
    let object = serde_json::to_value(object).expect("a typed object should become JSON");
    let digest = proofs.digest(order.unit, object.to_string().as_bytes());
    Rendered { key, object, digest }
}

/// A short digest of a JSON value, the same for the same value.
fn digest(value: &Value) -> String {
    let hash = Sha256::digest(value.to_string().as_bytes());
    data_encoding::HEXLOWER.encode(&hash[..12])
}
