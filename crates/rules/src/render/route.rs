//! Host names of a service: an Ingress or, with a gateway, an HTTPRoute for each, its certificate,
//! and one NetworkPolicy for all of them.
//!
//! Kinds that are not built into Kubernetes are typed here with the few fields we set.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule,
    IngressServiceBackend, IngressSpec, IngressTLS, NetworkPolicy, ServiceBackendPort,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::Serialize;
use trueup_model::cluster::GatewayRef;
use trueup_model::domain::{Route, Tls};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Order, ServiceBody};
use trueup_model::spec::Port;

use super::{Rendered, child_metadata, finish, metadata, opening};
use crate::admit::domain::http_port;
use crate::render::names;
use crate::render::proof::ProofKey;

pub(super) fn keys(order: &Order, body: &ServiceBody) -> BTreeSet<ResourceKey> {
    let at = |kind, name: &str| ResourceKey::new(kind, &order.namespace, name);
    let mut keys = BTreeSet::new();
    if routed(body).next().is_some() {
        keys.insert(at(Kind::NetworkPolicy, &names::web_opening(&body.object_name)));
    }
    for (route, _) in routed(body) {
        let name = names::domain(&body.object_name, route.id);
        keys.insert(at(route_kind(body), &name));
        if issuer(body, route).is_some() {
            keys.insert(at(Kind::Certificate, &name));
            // See `is_certificate_secret`.
            keys.insert(secret_key(order, body, route));
        }
    }
    keys
}

/// The NetworkPolicy that allows traffic from the ingress or gateway.
pub(super) fn policy(
    order: &Order,
    body: &ServiceBody,
    owner: &OwnerReference,
    proofs: &ProofKey,
) -> Option<Rendered> {
    let (_, port) = routed(body).next()?;
    let name = names::web_opening(&body.object_name);
    let key = ResourceKey::new(Kind::NetworkPolicy, &order.namespace, &name);
    let policy = NetworkPolicy {
        metadata: child_metadata(order, &key, owner, proofs),
        spec: Some(opening::spec(body, port, body.routing.from_namespace.as_deref())),
    };
    Some(finish(key, &policy))
}

pub(super) fn objects(
    order: &Order,
    body: &ServiceBody,
    owner: &OwnerReference,
    proofs: &ProofKey,
) -> Vec<Rendered> {
    let at = |kind, route: &Route| {
        let name = names::domain(&body.object_name, route.id);
        let key = ResourceKey::new(kind, &order.namespace, &name);
        let metadata = child_metadata(order, &key, owner, proofs);
        (key, metadata)
    };
    routed(body)
        .flat_map(|(route, port)| {
            let certificate = issuer(body, route).map(|issuer| {
                let (key, metadata) = at(Kind::Certificate, route);
                let secret = secret(order, &secret_key(order, body, route), proofs);
                finish(key, &certificate(route, issuer, secret, metadata))
            });
            let (key, metadata) = at(route_kind(body), route);
            let route = match &body.routing.gateway {
                Some(gateway) => finish(key, &http_route(body, route, port, gateway, metadata)),
                None => finish(key, &ingress(body, route, port, metadata)),
            };
            certificate.into_iter().chain([route])
        })
        .collect()
}

/// The routes with the service's HTTP port; none without such a port.
fn routed(body: &ServiceBody) -> impl Iterator<Item = (&Route, &Port)> {
    let port = http_port(&body.spec);
    body.routes.iter().filter_map(move |route| Some((route, port?)))
}

const fn route_kind(body: &ServiceBody) -> Kind {
    if body.routing.gateway.is_some() { Kind::HttpRoute } else { Kind::Ingress }
}

/// The issuer of a host's certificate, if it has one. A gateway has its own certificates.
fn issuer<'a>(body: &'a ServiceBody, route: &Route) -> Option<&'a str> {
    match (route.tls, &body.routing.gateway) {
        (Tls::Auto, None) => body.routing.issuer.as_deref(),
        (Tls::Auto, Some(_)) | (Tls::Off, _) => None,
    }
}

fn ingress(body: &ServiceBody, route: &Route, port: &Port, metadata: ObjectMeta) -> Ingress {
    let tls = issuer(body, route).map(|_| {
        vec![IngressTLS {
            hosts: Some(vec![route.host.to_string()]),
            secret_name: Some(names::domain_secret(&body.object_name, route.id)),
        }]
    });
    let backend = IngressBackend {
        service: Some(IngressServiceBackend {
            name: body.object_name.clone(),
            port: Some(ServiceBackendPort {
                name: Some(port.name.clone()),
                ..ServiceBackendPort::default()
            }),
        }),
        ..IngressBackend::default()
    };
    Ingress {
        metadata,
        spec: Some(IngressSpec {
            ingress_class_name: body.routing.ingress_class.clone(),
            tls,
            rules: Some(vec![IngressRule {
                host: Some(route.host.to_string()),
                http: Some(HTTPIngressRuleValue {
                    paths: vec![HTTPIngressPath {
                        path: Some("/".to_owned()),
                        path_type: "Prefix".to_owned(),
                        backend,
                    }],
                }),
            }]),
            ..IngressSpec::default()
        }),
        ..Ingress::default()
    }
}

/// An object of a kind that is not built into Kubernetes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Foreign<S> {
    api_version: &'static str,
    kind: &'static str,
    metadata: ObjectMeta,
    spec: S,
}

impl<S> Foreign<S> {
    pub(super) const fn new(kind: Kind, metadata: ObjectMeta, spec: S) -> Self {
        Self { api_version: kind.api_version(), kind: kind.as_str(), metadata, spec }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HttpRouteSpec {
    parent_refs: Vec<Parent>,
    hostnames: Vec<String>,
    rules: Vec<Rule>,
}

#[derive(Serialize)]
struct Parent {
    group: &'static str,
    kind: &'static str,
    namespace: String,
    name: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    backend_refs: Vec<Backend>,
}

#[derive(Serialize)]
struct Backend {
    group: &'static str,
    kind: &'static str,
    name: String,
    port: u16,
    weight: u8,
}

fn http_route(
    body: &ServiceBody,
    route: &Route,
    port: &Port,
    gateway: &GatewayRef,
    metadata: ObjectMeta,
) -> Foreign<HttpRouteSpec> {
    let spec = HttpRouteSpec {
        parent_refs: vec![Parent {
            group: Kind::HttpRoute.group(),
            kind: "Gateway",
            namespace: gateway.namespace.clone(),
            name: gateway.name.clone(),
        }],
        hostnames: vec![route.host.to_string()],
        rules: vec![Rule {
            backend_refs: vec![Backend {
                group: "",
                kind: "Service",
                name: body.object_name.clone(),
                port: port.port,
                weight: 1,
            }],
        }],
    };
    Foreign::new(Kind::HttpRoute, metadata, spec)
}

/// The key of the Secret with a host's certificate and private key.
fn secret_key(order: &Order, body: &ServiceBody, route: &Route) -> ResourceKey {
    let name = names::domain_secret(&body.object_name, route.id);
    ResourceKey::new(Kind::Secret, &order.namespace, &name)
}

/// Whether a key is of the Secret with the certificate of a host of this service.
///
/// cert-manager creates it and does not delete it with the Certificate, unless the whole cluster is
/// set up so. It holds a private key, so it must not outlive its host: its key is recorded with the
/// host, cert-manager copies our proof to it, and the plan deletes it once no host wants it. A
/// Secret without our proof is never touched.
pub(crate) fn is_certificate_secret(body: &ServiceBody, key: &ResourceKey) -> bool {
    key.kind == Kind::Secret && names::is_domain_secret(&body.object_name, &key.name)
}

/// Gives the Secret that cert-manager creates our labels and proof, so that it is deleted with the
/// host and checked when absence is verified.
fn secret(order: &Order, key: &ResourceKey, proofs: &ProofKey) -> CertificateSecret {
    let ObjectMeta { labels, annotations, .. } =
        metadata(order, key, proofs.object(order.unit, key));
    let template = SecretTemplate {
        labels: labels.unwrap_or_default(),
        annotations: annotations.unwrap_or_default(),
    };
    CertificateSecret { name: key.name.clone(), template }
}

struct CertificateSecret {
    name: String,
    template: SecretTemplate,
}

#[derive(Serialize)]
struct SecretTemplate {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CertificateSpec {
    secret_name: String,
    secret_template: SecretTemplate,
    dns_names: Vec<String>,
    issuer_ref: Issuer,
}

#[derive(Serialize)]
struct Issuer {
    group: &'static str,
    kind: &'static str,
    name: String,
}

fn certificate(
    route: &Route,
    issuer: &str,
    secret: CertificateSecret,
    metadata: ObjectMeta,
) -> Foreign<CertificateSpec> {
    let spec = CertificateSpec {
        secret_name: secret.name,
        secret_template: secret.template,
        dns_names: vec![route.host.to_string()],
        issuer_ref: Issuer {
            group: Kind::Certificate.group(),
            kind: "ClusterIssuer",
            name: issuer.to_owned(),
        },
    };
    Foreign::new(Kind::Certificate, metadata, spec)
}
