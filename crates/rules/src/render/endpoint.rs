//! Endpoints: a NodePort Service for one port, and the NetworkPolicy that allows its traffic.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use trueup_model::endpoint::OpenPort;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Order, ServiceBody};
use trueup_model::spec::Protocol;

use super::{Rendered, child_metadata, finish, stated};
use crate::render::names;
use crate::render::proof::ProofKey;

/// The kinds of an endpoint's objects.
const KINDS: [Kind; 2] = [Kind::NetworkPolicy, Kind::Service];

pub(super) fn keys(order: &Order, body: &ServiceBody) -> BTreeSet<ResourceKey> {
    routed(body)
        .flat_map(|(open, _)| {
            let name = names::endpoint(&body.object_name, open.id);
            KINDS.map(|kind| ResourceKey::new(kind, &order.namespace, &name))
        })
        .collect()
}

pub(super) fn objects(
    order: &Order,
    body: &ServiceBody,
    owner: &OwnerReference,
    proofs: &ProofKey,
) -> Vec<Rendered> {
    routed(body)
        .flat_map(|(open, number)| {
            let name = names::endpoint(&body.object_name, open.id);
            let at = |kind| ResourceKey::new(kind, &order.namespace, &name);
            let (policy_key, service_key) = (at(Kind::NetworkPolicy), at(Kind::Service));
            let policy = NetworkPolicy {
                metadata: child_metadata(order, &policy_key, owner, proofs),
                spec: Some(ingress_policy(body, open, number)),
            };
            let service = Service {
                metadata: child_metadata(order, &service_key, owner, proofs),
                spec: Some(node_port(body, open, number)),
                ..Service::default()
            };
            [finish(policy_key, &policy), finish(service_key, &service)]
        })
        .collect()
}

/// The endpoints whose port exists in the spec, with the number of that port.
fn routed(body: &ServiceBody) -> impl Iterator<Item = (&OpenPort, u16)> {
    body.endpoints.iter().filter_map(|open| {
        let port = body.spec.ports.iter().find(|port| port.name == open.port)?;
        Some((open, port.port))
    })
}

fn pods(body: &ServiceBody) -> BTreeMap<String, String> {
    BTreeMap::from([(names::POD_LABEL.to_owned(), body.object_name.clone())])
}

fn node_port(body: &ServiceBody, open: &OpenPort, number: u16) -> ServiceSpec {
    ServiceSpec {
        selector: Some(pods(body)),
        ports: Some(vec![ServicePort {
            name: Some(open.port.clone()),
            port: i32::from(number),
            target_port: Some(IntOrString::String(open.port.clone())),
            protocol: Some(protocol(open.protocol)),
            node_port: Some(i32::from(open.node_port)),
            ..ServicePort::default()
        }]),
        ..stated::node_port()
    }
}

/// Allows ingress from anywhere to this port of these pods.
fn ingress_policy(body: &ServiceBody, open: &OpenPort, number: u16) -> NetworkPolicySpec {
    NetworkPolicySpec {
        pod_selector: Some(LabelSelector {
            match_labels: Some(pods(body)),
            ..LabelSelector::default()
        }),
        policy_types: Some(vec!["Ingress".to_owned()]),
        ingress: Some(vec![NetworkPolicyIngressRule {
            ports: Some(vec![NetworkPolicyPort {
                protocol: Some(protocol(open.protocol)),
                port: Some(IntOrString::Int(i32::from(number))),
                ..NetworkPolicyPort::default()
            }]),
            ..NetworkPolicyIngressRule::default()
        }]),
        ..NetworkPolicySpec::default()
    }
}

fn protocol(protocol: Protocol) -> String {
    match protocol {
        Protocol::Tcp => "TCP".to_owned(),
        Protocol::Udp => "UDP".to_owned(),
    }
}
