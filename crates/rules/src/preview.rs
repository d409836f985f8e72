//! Previews: which objects a change would create, update or delete, and which fields differ.
//!
//! Both sides are rendered from recorded state by the code that renders what is applied. Metadata
//! is left out, because it changes with every generation; secrets are shown by name and version.

pub mod cost;
pub mod exact;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::Value;
use sha2::{Digest, Sha256};
use trueup_model::id::ClusterId;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Body, Order, SecretValue, ServiceBody};
use trueup_model::secret::EncryptedSecret;
use trueup_model::service::DesiredState;

use crate::compare::fields::{Apart, compare};
use crate::render::proof::ProofKey;
use crate::render::{self, Rendered};

/// What a change does to one object.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectDiff {
    /// Which.
    pub key: ResourceKey,
    /// Whether it is created, updated or deleted.
    pub verb: Verb,
    /// What differs, in path order; empty unless it is updated.
    pub fields: Vec<FieldChange>,
}

/// What would be done with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// It is created.
    Create,
    /// It is updated.
    Update,
    /// It is deleted.
    Delete,
}

/// One field that would differ.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldChange {
    /// Where: `spec.template.spec.containers.main.image`.
    pub path: String,
    /// The recorded value.
    pub before: Option<Value>,
    /// The new value.
    pub after: Option<Value>,
}

/// Everything that would change between two orders of a unit; `before` is none for a new one.
#[must_use]
pub fn changes(before: Option<&Order>, after: &Order) -> Vec<ObjectDiff> {
    let old = before.map(objects).unwrap_or_default();
    let new = objects(after);
    let keys: BTreeSet<&ResourceKey> = old.keys().chain(new.keys()).collect();
    keys.into_iter().filter_map(|key| change(key, old.get(key), new.get(key))).collect()
}

/// Where a workload has its pod template; a CronJob has it in its job template.
const PODS: [&str; 2] = ["/spec/jobTemplate/spec/template", "/spec/template"];

/// Whether every pod would be replaced.
#[must_use]
pub fn replaces_pods(before: Option<&Order>, after: &Order) -> bool {
    let pods = |order: &Order| match (&order.body, order.desired) {
        (Body::Service(body), DesiredState::Active) => {
            let body = with_hidden_secrets(body);
            let workload = render::service_workload(order, &body, &owner(), &proofs());
            PODS.iter().find_map(|path| workload.object.pointer(path).cloned())
        }
        (Body::Service(_) | Body::Project, _) => None,
    };
    match (before.and_then(pods), pods(after)) {
        (Some(before), Some(after)) => before != after,
        (None, _) | (_, None) => false,
    }
}

fn change(key: &ResourceKey, old: Option<&Value>, new: Option<&Value>) -> Option<ObjectDiff> {
    let made = |verb, fields| Some(ObjectDiff { key: key.clone(), verb, fields });
    match (old, new) {
        (None, Some(_)) => made(Verb::Create, Vec::new()),
        (Some(_), None) => made(Verb::Delete, Vec::new()),
        (Some(old), Some(new)) => {
            let fields: Vec<FieldChange> = compare(old, new).into_iter().map(field).collect();
            if fields.is_empty() { None } else { made(Verb::Update, fields) }
        }
        (None, None) => None,
    }
}

fn field(apart: Apart) -> FieldChange {
    FieldChange { path: apart.path(), before: apart.before, after: apart.after }
}

/// A digest of all objects of an order. Two orders with the same digest render the same objects;
/// secrets are represented by their versions.
#[must_use]
pub fn digest(order: &Order) -> String {
    let mut hash = Sha256::new();
    hash.update(order.desired.into_str());
    for rendered in rendered(order) {
        for part in [rendered.key.to_string(), rendered.object.to_string()] {
            hash.update(b"\0");
            hash.update(part);
        }
    }
    data_encoding::HEXLOWER.encode(&hash.finalize()[..16])
}

/// The objects of an order, with secrets represented by their versions.
fn rendered(order: &Order) -> Vec<Rendered> {
    match (&order.body, order.desired) {
        (_, DesiredState::Deleted) => Vec::new(),
        (Body::Project, _) => render::project(order, &proofs()),
        (Body::Service(body), _) => {
            let body = with_hidden_secrets(body);
            let mut rendered = render::service_prerequisites(order, &body, &owner(), &proofs());
            rendered.push(render::service_workload(order, &body, &owner(), &proofs()));
            rendered.extend(render::service_companions(order, &body, &owner(), &proofs()));
            rendered
        }
    }
}

/// The same without metadata and without secret values.
fn objects(order: &Order) -> BTreeMap<ResourceKey, Value> {
    rendered(order)
        .into_iter()
        .map(|rendered| {
            let mut object = rendered.object;
            if let Some(fields) = object.as_object_mut() {
                fields.remove("metadata");
                if rendered.key.kind == Kind::Secret {
                    hide(fields, &order.body);
                }
            }
            for path in PODS {
                let annotations = format!("{path}/metadata/annotations");
                object.pointer_mut(&annotations).map(Value::take);
            }
            (rendered.key, object)
        })
        .collect()
}

/// Replaces secret values by their versions: nothing is decrypted for a preview.
fn with_hidden_secrets(body: &ServiceBody) -> ServiceBody {
    let generated = body.spec.generated_secrets.iter().map(|name| (name.clone(), String::new()));
    let stored = body.sealed.iter().map(|(name, sealed)| (name.clone(), version(sealed)));
    let secrets = generated.chain(stored).map(|(name, text)| (name, SecretValue::new(text)));
    ServiceBody { secrets: secrets.collect(), sealed: BTreeMap::new(), ..body.clone() }
}

fn version(sealed: &EncryptedSecret) -> String {
    let whose = if sealed.place.scope.service.is_some() { "service" } else { "project" };
    format!("(hidden, version {} of the {whose})", sealed.place.version)
}

fn hide(secret: &mut serde_json::Map<String, Value>, body: &Body) {
    let sealed = match body {
        Body::Service(body) => Some(&body.sealed),
        Body::Project => None,
    };
    for (name, value) in secret.get_mut("data").and_then(Value::as_object_mut).into_iter().flatten()
    {
        let stored = sealed.and_then(|sealed| sealed.get(name)).map(version);
        *value = Value::String(stored.unwrap_or_else(|| "(hidden)".to_owned()));
    }
}

/// A placeholder for the anchor: a preview has none. Both sides use the same one.
fn owner() -> OwnerReference {
    OwnerReference::default()
}

fn proofs() -> ProofKey {
    let nowhere = ClusterId::from_parts(jiff::Timestamp::UNIX_EPOCH, [0; 10]);
    ProofKey::new(&[0; 32], nowhere)
}
