//! Hosts on a real API server with the published schemas of HTTPRoute, Certificate and
//! ServiceMonitor.
//!
//! A gateway controller and cert-manager do not run here. These tests write the conditions that they
//! write, through the status of the real schemas, and the Secret that cert-manager writes.

use std::collections::BTreeMap;

use http::Request;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use trueup_model::cluster::{GatewayRef, Routing};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::{Admission, CertificateSeen, Sighting};
use trueup_model::order::{Body, Order};
use trueup_model::report::Report;
use trueup_model::spec::{Port, Protocol};
use trueup_rules::render;
use trueup_testkit::real_kube;

use crate::causes::real;
use crate::executor::definitions;
use crate::executor::hosts::{at, quiet, with_host, with_issuer};
use crate::rig::{Rig, web, with_receipt};

/// A running service on the real server.
async fn running() -> (Rig, kube::Client) {
    definitions::ensure(&real_kube::shared().await).await;
    let (cluster, client) = real().await;
    let mut rig = Rig::start(cluster);
    rig.running(web(1)).await;
    (rig, client)
}

fn with_gateway() -> Routing {
    let gateway = GatewayRef { namespace: "infra".to_owned(), name: "public".to_owned() };
    Routing { gateway: Some(gateway), ..Routing::default() }
}

/// The service with a host and with metrics.
fn with_metrics(rig: &Rig, routing: Routing) -> Order {
    let mut order = with_host(rig, 2, routing);
    if let Body::Service(body) = &mut order.body {
        let (name, protocol) = ("metrics".to_owned(), Protocol::Tcp);
        body.spec.ports.push(Port { name, port: 9090, protocol });
    }
    for key in render::keys(&order) {
        order.recorded.entry(key).or_insert(None);
    }
    order
}

/// The versions of an order's objects of kinds that the cluster got from others.
async fn versions(rig: &Rig, order: &Order) -> BTreeMap<ResourceKey, Value> {
    let mut versions = BTreeMap::new();
    for key in order.recorded.keys().filter(|key| key.kind.comes_with().is_some()) {
        let object = rig.get(key).await.expect("the object should be there");
        versions.insert(key.clone(), object["metadata"]["resourceVersion"].clone());
    }
    versions
}

#[tokio::test]
async fn published_schemas_accept_our_objects_and_their_defaults_are_no_difference() {
    let cases = [
        (with_gateway(), vec![Kind::HttpRoute, Kind::ServiceMonitor]),
        (with_issuer(), vec![Kind::Certificate, Kind::ServiceMonitor]),
    ];
    for (routing, expected) in cases {
        let (mut rig, _) = running().await;
        let order = with_metrics(&rig, routing);
        rig.order_until(order.clone(), quiet).await;
        let first = versions(&rig, &order).await;
        assert_eq!(first.keys().map(|key| key.kind).collect::<Vec<_>>(), expected);
        rig.executor.order(order.clone()).await.await.expect("a pass should end");
        assert_eq!(versions(&rig, &order).await, first, "the same again writes nothing");
    }
}

/// Writes the status of an object, as its controller does.
async fn report_status(client: &kube::Client, key: &ResourceKey, status: &Value) {
    let (api, plural) = (key.kind.api_version(), key.kind.plural());
    let path = format!("/apis/{api}/namespaces/{}/{plural}/{}/status", key.namespace, key.name);
    let request = Request::patch(format!("{path}?fieldValidation=Strict"))
        .header(CONTENT_TYPE, "application/merge-patch+json")
        .body(json!({ "status": status }).to_string().into_bytes())
        .expect("should be a request");
    client.request_text(request).await.expect("the status should fit the schema");
}

fn seen<'a>(report: &'a Report, key: &ResourceKey) -> Option<&'a Sighting> {
    report.observation.as_ref()?.objects.iter().find(|one| one.key == *key)
}

fn admission<'a>(report: &'a Report, key: &ResourceKey) -> Option<&'a Admission> {
    Some(&seen(report, key)?.route.as_ref()?.admission)
}

/// The status of a route that its gateway accepts or not.
fn at_gateway(accepted: &str, reason: &str) -> Value {
    let condition = |name: &str, status: &str, reason: &str| {
        json!({"type": name, "status": status, "reason": reason, "message": "as tested",
               "observedGeneration": 1, "lastTransitionTime": "2030-01-01T00:00:00Z"})
    };
    json!({"parents": [{
        "controllerName": "example.com/gateway",
        "parentRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway",
                      "namespace": "infra", "name": "public"},
        "conditions": [condition("Accepted", accepted, reason),
                       condition("ResolvedRefs", "True", "ResolvedRefs")],
    }]})
}

#[tokio::test]
async fn a_route_is_admitted_or_refused_as_its_gateway_reports() {
    let (mut rig, client) = running().await;
    let order = with_host(&rig, 2, with_gateway());
    let key = at(&order, Kind::HttpRoute);
    let report = rig.order_until(order.clone(), quiet).await;
    assert_eq!(admission(&report, &key), Some(&Admission::Pending), "the object alone is not open");

    report_status(&client, &key, &at_gateway("True", "Accepted")).await;
    let is_admitted = |report: &Report| admission(report, &key) == Some(&Admission::Admitted);
    rig.until(order.unit, is_admitted).await;

    report_status(&client, &key, &at_gateway("False", "NotAllowedByListeners")).await;
    let is_refused = |report: &Report| match admission(report, &key) {
        Some(Admission::Refused(problem)) => problem.reason == "NotAllowedByListeners",
        Some(Admission::Pending | Admission::Unanswered { .. } | Admission::Admitted) | None => {
            false
        }
    };
    rig.until(order.unit, is_refused).await;
}

#[tokio::test]
async fn an_ingress_is_admitted_once_its_controller_reports_an_address() {
    let (mut rig, client) = running().await;
    let order = with_host(&rig, 2, Routing::default());
    let key = at(&order, Kind::Ingress);
    let report = rig.order_until(order.clone(), quiet).await;
    assert_eq!(admission(&report, &key), Some(&Admission::Pending), "the object alone is not open");
    let address = json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}]}});
    report_status(&client, &key, &address).await;
    let is_admitted = |report: &Report| admission(report, &key) == Some(&Admission::Admitted);
    rig.until(order.unit, is_admitted).await;
}

/// Writes the Secret of a certificate, as cert-manager does: with the labels and annotations of the
/// template, and without an owner.
async fn issue(client: &kube::Client, certificate: &Value) -> ResourceKey {
    let spec = &certificate["spec"];
    let namespace = certificate["metadata"]["namespace"].as_str().expect("a namespace");
    let name = spec["secretName"].as_str().expect("the name of a Secret");
    let template = &spec["secretTemplate"];
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": name, "labels": template["labels"],
                     "annotations": template["annotations"]},
        "stringData": {"tls.crt": "a stand-in", "tls.key": "a stand-in"},
    });
    let request = Request::post(format!("/api/v1/namespaces/{namespace}/secrets"))
        .header(CONTENT_TYPE, "application/json")
        .body(secret.to_string().into_bytes())
        .expect("should be a request");
    client.request_text(request).await.expect("the Secret should be accepted");
    ResourceKey::new(Kind::Secret, namespace, name)
}

#[tokio::test]
async fn a_certificate_is_seen_with_its_end_and_its_secret_goes_with_the_host() {
    let (mut rig, client) = running().await;
    let order = with_host(&rig, 2, with_issuer());
    let key = at(&order, Kind::Certificate);
    rig.order_until(order.clone(), quiet).await;
    let certificate = rig.get(&key).await.expect("the Certificate should be there");
    let secret = issue(&client, &certificate).await;
    let ready = json!({
        "notBefore": "2030-01-01T00:00:00Z", "notAfter": "2030-04-01T00:00:00Z",
        "renewalTime": "2030-03-01T00:00:00Z", "revision": 1,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Ready",
                        "message": "Certificate is up to date and has not expired",
                        "observedGeneration": 1, "lastTransitionTime": "2030-01-01T00:00:00Z"}],
    });
    report_status(&client, &key, &ready).await;
    let expected = CertificateSeen {
        ready: true,
        issuer: "test".to_owned(),
        not_after: Some("2030-04-01T00:00:00Z".parse().expect("a time")),
        problem: None,
    };
    let is_ready = |report: &Report| {
        seen(report, &key).and_then(|one| one.certificate.as_ref()) == Some(&expected)
    };
    rig.until(order.unit, is_ready).await;

    let without = Rig::after(&order, rig.service(3, web(1)));
    rig.order_until(without, quiet).await;
    for gone in [&key, &secret] {
        rig.get_until(gone, |found| found.is_none()).await;
    }
    rig.order_until(rig.gone(4, web(1)), with_receipt).await;
}
