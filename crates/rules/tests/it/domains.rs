//! Hosts in a cluster: an Ingress or HTTPRoute for each, certificates, and one NetworkPolicy.

mod observed;

use serde_json::{Value, json};
use trueup_model::cluster::{GatewayRef, Routing};
use trueup_model::domain::{Route, Tls};
use trueup_model::id::DomainId;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::Absent;
use trueup_model::order::{Body, Order};
use trueup_model::report::Outcome;
use trueup_model::service::DesiredState;
use trueup_model::spec::{Port, Protocol};
use trueup_rules::plan::Action;
use trueup_rules::render::Rendered;
use uuid::Uuid;

use crate::given;
use crate::manifests::objects;
use crate::world::World;

const NONE: [Value; 0] = [];

fn route(host: &str, tls: Tls) -> Route {
    let id = DomainId::from_uuid(Uuid::from_u128(u128::try_from(host.len()).expect("a length")));
    Route { id, host: host.parse().expect("a host"), tls }
}

/// A web service with two hosts and a port for metrics.
pub(crate) fn order(routing: Routing) -> Order {
    let accepted = given::accepted(&given::template("web"), json!({"image": "nginx:1"}));
    with_routes(given::order(&accepted), routing)
}

fn with_routes(mut order: Order, routing: Routing) -> Order {
    if let Body::Service(body) = &mut order.body {
        body.routes =
            vec![route("www.example.org", Tls::Auto), route("plain.example.org", Tls::Off)];
        body.routing = routing;
        body.spec.ports.push(Port {
            name: "metrics".to_owned(),
            port: 9090,
            protocol: Protocol::Tcp,
        });
    }
    given::recorded(order)
}

pub(crate) fn with_issuer() -> Routing {
    Routing {
        issuer: Some("letsencrypt".to_owned()),
        ingress_class: Some("nginx".to_owned()),
        from_namespace: Some("ingress".to_owned()),
        ..Routing::default()
    }
}

pub(crate) fn with_gateway() -> Routing {
    let gateway = GatewayRef { namespace: "infra".to_owned(), name: "public".to_owned() };
    Routing { gateway: Some(gateway), ..with_issuer() }
}

fn made(order: &Order, kind: Kind) -> Vec<Value> {
    let of = |one: Rendered| (one.key.kind == kind).then(|| one.object["spec"].clone());
    objects(order).into_iter().filter_map(of).collect()
}

#[test]
fn without_routing_settings_a_host_is_an_ingress() {
    let order = order(Routing::default());
    let backend = json!({"service": {"name": "web-00000004", "port": {"name": "http"}}});
    let rule = |host: &str| {
        json!({"rules": [{"host": host, "http": {"paths": [
            {"path": "/", "pathType": "Prefix", "backend": backend}]}}]})
    };
    assert_eq!(made(&order, Kind::Ingress), [rule("www.example.org"), rule("plain.example.org")]);
    assert_eq!(made(&order, Kind::Certificate), NONE);
    assert_eq!(made(&order, Kind::HttpRoute), NONE);
}

#[test]
fn with_an_issuer_a_host_gets_a_certificate_unless_off() {
    let order = order(with_issuer());
    let certificates = made(&order, Kind::Certificate);
    assert_eq!(certificates.len(), 1);
    assert_eq!(certificates[0]["dnsNames"], json!(["www.example.org"]));
    let issuer =
        json!({"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "letsencrypt"});
    assert_eq!(certificates[0]["issuerRef"], issuer);
    let ingresses = made(&order, Kind::Ingress);
    assert_eq!(ingresses[0]["ingressClassName"], "nginx");
    let secret = &certificates[0]["secretName"];
    assert_eq!(ingresses[0]["tls"], json!([{"hosts": ["www.example.org"], "secretName": secret}]));
    assert_eq!(ingresses[1]["tls"], Value::Null);
}

#[test]
fn with_a_gateway_a_host_is_a_route_without_certificate() {
    let order = order(with_gateway());
    let routes = made(&order, Kind::HttpRoute);
    assert_eq!(routes.len(), 2);
    assert_eq!(routes[0]["hostnames"], json!(["www.example.org"]));
    assert_eq!(routes[0]["parentRefs"][0]["name"], "public");
    assert_eq!(routes[0]["rules"][0]["backendRefs"][0]["port"], 8080);
    assert_eq!(made(&order, Kind::Ingress), NONE);
    assert_eq!(made(&order, Kind::Certificate), NONE);
}

#[test]
fn the_network_policy_allows_one_port_from_one_namespace() {
    let order = order(with_issuer());
    let opening = objects(&order)
        .into_iter()
        .find(|one| one.key.kind == Kind::NetworkPolicy && one.key.name.ends_with("-web"))
        .expect("an opening");
    let rule = &opening.object["spec"]["ingress"][0];
    assert_eq!(rule["ports"], json!([{"port": 8080, "protocol": "TCP"}]));
    let from = json!({"matchLabels": {"kubernetes.io/metadata.name": "ingress"}});
    assert_eq!(rule["from"], json!([{"namespaceSelector": from}]));
}

#[test]
fn a_port_named_metrics_gets_a_monitor() {
    let monitors = made(&order(Routing::default()), Kind::ServiceMonitor);
    assert_eq!(monitors[0]["endpoints"], json!([{"port": "metrics"}]));
    let plain = given::order(&given::accepted(&given::template("web"), json!({"image": "a:1"})));
    assert_eq!(made(&plain, Kind::ServiceMonitor), NONE);
}

#[test]
fn a_service_without_an_http_port_gets_no_ingress() {
    let mut order = given::order(&given::accepted(&given::template("redis"), json!({})));
    if let Body::Service(body) = &mut order.body {
        body.routes = vec![route("www.example.org", Tls::Auto)];
    }
    assert_eq!(made(&order, Kind::Ingress), NONE);
}

/// A service with hosts, fully applied.
fn running(routing: Routing) -> World {
    let mut world = World::service(given::template("web"), json!({"image": "nginx:1"}));
    world.order = with_routes(world.order.clone(), routing);
    assert_eq!(world.reconcile().outcome, Outcome::Converged);
    world.server.catch_up();
    world.reconcile();
    world
}

fn kinds(world: &World) -> Vec<Kind> {
    world.server.objects.keys().map(|key| key.kind).collect()
}

#[test]
fn removed_hosts_are_deleted_with_their_objects() {
    let mut world = running(with_issuer());
    let gone = [Kind::Ingress, Kind::Certificate, Kind::ServiceMonitor];
    assert!(gone.iter().all(|kind| kinds(&world).contains(kind)));
    world.order.generation = 2;
    if let Body::Service(body) = &mut world.order.body {
        body.routes.clear();
        body.spec.ports.truncate(1);
    }
    world.order = given::recorded(world.order.clone());
    assert_eq!(world.reconcile().outcome, Outcome::Converged);
    let left = kinds(&world);
    assert!(!gone.iter().any(|kind| left.contains(kind)), "{left:?}");
    assert!(!left.contains(&Kind::NetworkPolicy), "{left:?}");
}

/// A service with hosts, and the Secret of its certificate: cert-manager creates it as the
/// Certificate says, and never deletes it.
fn issued() -> (World, ResourceKey) {
    let mut world = running(with_issuer());
    let spec = made(&world.order, Kind::Certificate).remove(0);
    let template = &spec["secretTemplate"];
    let name = spec["secretName"].as_str().expect("a name");
    let key = ResourceKey::new(Kind::Secret, &world.order.namespace, name);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": key.namespace, "labels": template["labels"],
                     "annotations": template["annotations"]},
    });
    world.server.apply(&key, &secret);
    assert_eq!(world.reconcile().outcome, Outcome::Converged);
    assert!(world.server.objects.contains_key(&key), "a used Secret should stay");
    (world, key)
}

#[test]
fn the_secret_of_a_certificate_is_deleted_with_the_service() {
    let (mut world, key) = issued();
    world.desire(DesiredState::Deleted);
    world.reconcile();
    assert!(!world.server.objects.contains_key(&key));
}

/// The Secret goes after the Certificate: cert-manager would write it again.
#[test]
fn the_secret_of_a_certificate_is_deleted_with_its_host_and_other_secrets_stay() {
    let (mut world, key) = issued();
    world.order.generation = 2;
    if let Body::Service(body) = &mut world.order.body {
        body.routes.clear();
    }
    world.order = given::recorded(world.order.clone());
    let pass = world.reconcile();
    assert_eq!(pass.outcome, Outcome::Converged);
    let deletes = |action: &Action, kind: Kind| match action {
        Action::Delete { key, .. } => key.kind == kind,
        Action::Apply { .. }
        | Action::Prune { .. }
        | Action::ReleaseAnchor { .. }
        | Action::VerifyAbsence => false,
    };
    let round = |kind: Kind| {
        pass.rounds.iter().position(|round| round.iter().any(|action| deletes(action, kind)))
    };
    let (certificate, secret) = (round(Kind::Certificate), round(Kind::Secret));
    assert!(certificate.is_some() && certificate < secret, "{:#?}", pass.rounds);
    assert!(!world.server.objects.contains_key(&key));
    assert!(kinds(&world).contains(&Kind::Secret), "the secret variables of the service stay");
}

#[test]
fn a_secret_at_the_name_of_a_certificate_without_our_proof_stays() {
    let (mut world, key) = issued();
    world.server.delete(&key);
    world.server.edit(&key, |foreign| foreign["data"] = json!({"tls.key": "c29tZQ=="}));
    world.order.generation = 2;
    if let Body::Service(body) = &mut world.order.body {
        body.routes.clear();
    }
    world.order = given::recorded(world.order.clone());
    assert_eq!(world.reconcile().outcome, Outcome::Converged);
    assert!(world.server.objects.contains_key(&key));
}

#[test]
fn a_new_gateway_replaces_ingresses_with_routes() {
    let mut world = running(with_issuer());
    if let Body::Service(body) = &mut world.order.body {
        body.routing = with_gateway();
    }
    world.order = given::recorded(world.order.clone());
    assert_eq!(world.reconcile().outcome, Outcome::Converged);
    let left = kinds(&world);
    assert!(left.contains(&Kind::HttpRoute) && !left.contains(&Kind::Ingress), "{left:?}");
}

#[test]
fn an_unserved_optional_kind_blocks_nothing() {
    let mut world = World::service(given::template("web"), json!({"image": "nginx:1"}));
    world.order = with_routes(world.order.clone(), with_gateway());
    world.missing.insert(Kind::HttpRoute, Absent::Unserved);
    world.missing.insert(Kind::Certificate, Absent::Unserved);
    assert_eq!(world.reconcile().outcome, Outcome::Converged);
    assert!(!kinds(&world).contains(&Kind::HttpRoute));
    let messages: Vec<&str> =
        world.status.conditions.iter().map(|condition| condition.message.as_str()).collect();
    assert!(messages.iter().any(|message| message.contains("the Gateway API")), "{messages:?}");
    assert!(
        !messages.iter().any(|message| message.contains("cert-manager")),
        "not wanted, so not missing"
    );
    world.missing.clear();
    assert_eq!(world.reconcile().outcome, Outcome::Converged);
    assert!(kinds(&world).contains(&Kind::HttpRoute));
}
