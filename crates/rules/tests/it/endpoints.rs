//! Endpoints in a cluster: opened for one port, and removed when no longer wanted.

use std::sync::Arc;

use serde_json::{Value, json};
use trueup_model::endpoint::OpenPort;
use trueup_model::id::EndpointId;
use trueup_model::key::Kind;
use trueup_model::order::{Body, Order};
use trueup_model::report::Outcome;
use trueup_model::spec::Protocol;
use trueup_rules::plan::{Action, Observed, plan};
use trueup_rules::render::names;
use uuid::Uuid;

use crate::given;
use crate::manifests::objects;

fn open_port() -> OpenPort {
    OpenPort {
        id: EndpointId::from_uuid(Uuid::from_u128(77)),
        port: "http".to_owned(),
        protocol: Protocol::Tcp,
        node_port: 30_123,
    }
}

fn order(endpoints: &[OpenPort]) -> Order {
    let mut order =
        given::order(&given::accepted(&given::template("web"), json!({"image": "nginx:1"})));
    if let Body::Service(body) = &mut order.body {
        body.endpoints = endpoints.to_vec();
    }
    given::recorded(order)
}

/// A cluster with an order fully applied.
fn applied(order: &Order) -> Observed {
    let mut observed = Observed { project_ready: true, ..Observed::default() };
    for rendered in objects(order) {
        let mut object = rendered.stamped(order, &given::proofs());
        object["metadata"]["uid"] = json!("uid-1");
        object["metadata"]["resourceVersion"] = json!("1");
        observed.objects.insert(rendered.key, Arc::new(object));
    }
    observed
}

#[test]
fn an_endpoint_opens_one_port_of_one_service() {
    let order = order(&[open_port()]);
    let made: Vec<_> =
        objects(&order).into_iter().filter(|one| one.key.name.contains("-ep")).collect();
    let kinds: Vec<Kind> = made.iter().map(|one| one.key.kind).collect();
    assert_eq!(kinds, [Kind::NetworkPolicy, Kind::Service]);
    let pods = json!({names::POD_LABEL: "web-00000004"});
    assert_eq!(
        made[0].object["spec"],
        json!({
            "podSelector": {"matchLabels": pods}, "policyTypes": ["Ingress"],
            "ingress": [{"ports": [{"port": 8080, "protocol": "TCP"}]}],
        })
    );
    let port = json!({"name": "http", "port": 8080, "targetPort": "http", "protocol": "TCP",
                      "nodePort": 30_123});
    assert_eq!(
        made[1].object["spec"],
        json!({
            "type": "NodePort", "selector": pods, "ports": [port], "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster", "externalTrafficPolicy": "Cluster",
        })
    );
    let settled = plan(&order, &applied(&order), &given::proofs());
    assert_eq!((settled.actions.len(), settled.outcome), (0, Outcome::Converged));
}

#[test]
fn only_the_objects_of_a_closed_endpoint_are_removed() {
    let before = order(&[open_port()]);
    let mut observed = applied(&before);
    let mut after = order(&[]);
    after.recorded = before.recorded;
    let after = given::recorded(after);
    // A foreign object under a name that could be an endpoint's.
    let foreign = names::endpoint("web-00000004", EndpointId::from_uuid(Uuid::from_u128(78)));
    let mut other_object = before_service(&observed);
    other_object["metadata"] = json!({"name": foreign, "uid": "uid-2", "resourceVersion": "1"});
    let key = trueup_model::key::ResourceKey::new(Kind::Service, &after.namespace, &foreign);
    observed.objects.insert(key, Arc::new(other_object));

    let removing = plan(&after, &observed, &given::proofs());
    let gone: Vec<String> = removing
        .actions
        .iter()
        .map(|action| match action {
            Action::Delete { key, uid, .. } => format!("{} {uid}", key.kind),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(gone, ["NetworkPolicy uid-1", "Service uid-1"]);

    // Until both are gone, the order is not applied: its port must not be reused.
    for object in observed.objects.values_mut() {
        if object["metadata"]["name"].as_str().is_some_and(|name| name.contains("-ep")) {
            Arc::make_mut(object)["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
        }
    }
    let waiting = plan(&after, &observed, &given::proofs());
    assert!(waiting.actions.is_empty());
    assert!(matches!(waiting.outcome, Outcome::Waiting { .. }), "{:?}", waiting.outcome);
    observed.objects.retain(|key, _| key.name == foreign || !key.name.contains("-ep"));
    assert_eq!(plan(&after, &observed, &given::proofs()).outcome, Outcome::Converged);
}

fn before_service(observed: &Observed) -> Value {
    let found = observed.objects.iter().find(|(key, _)| key.kind == Kind::Service);
    (**found.unwrap().1).clone()
}

#[test]
fn an_endpoint_without_its_port_renders_nothing() {
    let mut lost = open_port();
    lost.port = "gone".to_owned();
    assert!(objects(&order(&[lost])).iter().all(|one| !one.key.name.contains("-ep")));
}
