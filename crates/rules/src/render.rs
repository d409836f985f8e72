//! Renders an order into Kubernetes objects: typed values, no client.
//!
//! User text only becomes leaf strings of typed values. Objects are listed in the order in which
//! they may be written: policies before pods, variables before the pods that read them.

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
mod scratch;
pub mod secret;
mod stated;
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
pub(crate) use route::is_certificate_secret;

/// One desired object.
#[derive(Clone, PartialEq)]
pub struct Rendered {
    /// Where.
    pub key: ResourceKey,
    /// The object, complete except for the generation label and the stamp.
    pub object: Value,
    /// The digest of the object.
    pub digest: String,
}

impl fmt::Debug for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rendered({}, {})", self.key, shown(&self.key, &self.object))
    }
}

/// An object for debug output; the content of a Secret is hidden.
pub(crate) fn shown(key: &ResourceKey, object: &Value) -> String {
    if key.kind == Kind::Secret { "…".to_owned() } else { object.to_string() }
}

impl Rendered {
    /// The object as written for this order, with generation label and stamp.
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

/// The objects of a project: the namespace first, then quota, limits and policies.
#[must_use]
pub fn project(order: &Order, key: &ProofKey) -> Vec<Rendered> {
    project::objects(order, key)
}

/// A service's anchor with this ordinal.
#[must_use]
pub fn service_anchor(order: &Order, body: &ServiceBody, ordinal: u32, key: &ProofKey) -> Rendered {
    anchor::object(order, body, ordinal, key)
}

/// What must exist before a service's workload: variables, secrets, claims, its Service, policies.
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
    objects.extend(route::policy(order, body, owner, key));
    objects.extend(monitor::policy(order, body, owner, key));
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

/// A CronJob whose next run replaces the active one instead of waiting for its end.
pub(crate) fn with_replacing_runs(mut cron: Rendered) -> Rendered {
    cron.object["spec"]["concurrencyPolicy"] = "Replace".into();
    cron.digest = digest(&cron.object);
    cron
}

/// What is written after a service's workload: routes, autoscaler and metrics monitor.
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

/// The initial number of pods of an autoscaled workload; `None` without autoscaling.
#[must_use]
pub fn starting_replicas(order: &Order, body: &ServiceBody) -> Option<u32> {
    scale::autoscale(order, body).map(|autoscale| autoscale.start(body.spec.replicas))
}

/// The key of a service's workload.
#[must_use]
pub fn workload_key(order: &Order, body: &ServiceBody) -> ResourceKey {
    workload::key(order, body)
}

/// Every key this order may write, including the next anchor, so that they are recorded first.
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

/// Recorded keys that this order does not want: objects of earlier generations.
#[must_use]
pub fn unwanted(order: &Order) -> BTreeSet<ResourceKey> {
    let wanted = keys(order);
    order.recorded.keys().filter(|key| !wanted.contains(*key)).cloned().collect()
}

/// Metadata with the labels and the proof of every object of ours.
fn metadata(order: &Order, key: &ResourceKey, proof: String) -> ObjectMeta {
    let mut labels = BTreeMap::from([
        (names::MANAGED_BY.to_owned(), names::MANAGER.to_owned()),
        (names::ORG_LABEL.to_owned(), order.org.to_string()),
        (names::PROJECT_LABEL.to_owned(), order.project.to_string()),
    ]);
    if let Body::Service(body) = &order.body {
        labels.insert(names::SERVICE_LABEL.to_owned(), order.unit.to_string());
        // '@' is not allowed in a label's value.
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

/// Metadata of an object that is owned by the anchor.
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

/// Serializes a typed object and computes its digest.
fn finish<T: Serialize>(key: ResourceKey, object: &T) -> Rendered {
    let object = serde_json::to_value(object).expect("a typed object should become JSON");
    let digest = digest(&object);
    Rendered { key, object, digest }
}

/// The same for an object with secrets: its digest is keyed.
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

/// A short digest of a JSON value.
fn digest(value: &Value) -> String {
    let hash = Sha256::digest(value.to_string().as_bytes());
    data_encoding::HEXLOWER.encode(&hash[..12])
}
