//! The ServiceMonitor of a service with a metrics port, and the NetworkPolicy that allows scraping.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use serde::Serialize;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Order, ServiceBody};
use trueup_model::spec::{Port, Protocol};

use super::route::Foreign;
use super::{Rendered, child_metadata, finish, opening};
use crate::render::names;
use crate::render::proof::ProofKey;

/// The name of the metrics port.
const METRICS: &str = "metrics";

fn port(body: &ServiceBody) -> Option<&Port> {
    body.spec.ports.iter().find(|port| port.name == METRICS && port.protocol == Protocol::Tcp)
}

pub(super) fn keys(order: &Order, body: &ServiceBody) -> BTreeSet<ResourceKey> {
    let name = names::monitor(&body.object_name);
    let at = |kind| ResourceKey::new(kind, &order.namespace, &name);
    port(body)
        .map(|_| BTreeSet::from([at(Kind::NetworkPolicy), at(Kind::ServiceMonitor)]))
        .unwrap_or_default()
}

pub(super) fn policy(
    order: &Order,
    body: &ServiceBody,
    owner: &OwnerReference,
    proofs: &ProofKey,
) -> Option<Rendered> {
    let port = port(body)?;
    let name = names::monitor(&body.object_name);
    let key = ResourceKey::new(Kind::NetworkPolicy, &order.namespace, &name);
    let policy = NetworkPolicy {
        metadata: child_metadata(order, &key, owner, proofs),
        spec: Some(opening::spec(body, port, None)),
    };
    Some(finish(key, &policy))
}

#[derive(Serialize)]
struct Spec {
    selector: LabelSelector,
    endpoints: Vec<Endpoint>,
}

#[derive(Serialize)]
struct Endpoint {
    port: &'static str,
}

pub(super) fn object(
    order: &Order,
    body: &ServiceBody,
    owner: &OwnerReference,
    proofs: &ProofKey,
) -> Option<Rendered> {
    port(body)?;
    let name = names::monitor(&body.object_name);
    let key = ResourceKey::new(Kind::ServiceMonitor, &order.namespace, &name);
    let service = BTreeMap::from([(names::SERVICE_LABEL.to_owned(), order.unit.to_string())]);
    let spec = Spec {
        selector: LabelSelector { match_labels: Some(service), ..LabelSelector::default() },
        endpoints: vec![Endpoint { port: METRICS }],
    };
    let metadata = child_metadata(order, &key, owner, proofs);
    Some(finish(key, &Foreign::new(Kind::ServiceMonitor, metadata, spec)))
}
