//! What is written, looked at as a stranger would: nothing privileged, nothing owned across borders.

use serde_json::{Value, json};
use trueup_model::key::Kind;
use trueup_model::order::{Body, Order};
use trueup_rules::render::proof::ProofKey;
use trueup_rules::render::{self, Rendered, names};

use crate::given;

/// Every object of a service, as it would be written.
pub(crate) fn objects(order: &Order) -> Vec<Rendered> {
    let proofs: ProofKey = given::proofs();
    let Body::Service(body) = &order.body else {
        return render::project(order, &proofs);
    };
    let mut anchor = render::service_anchor(order, body, 1, &proofs);
    anchor.object["metadata"]["uid"] = json!("uid-1");
    let owner = render::current_anchor(&anchor.object).expect("an anchor with a uid");
    let mut objects = vec![anchor];
    objects.extend(render::service_prerequisites(order, body, &owner, &proofs));
    objects.push(render::service_workload(order, body, &owner, &proofs));
    objects.extend(render::service_companions(order, body, &owner, &proofs));
    objects
}

fn orders() -> Vec<Order> {
    let of =
        |name: &str, parameters| given::order(&given::promised(&given::template(name), parameters));
    let mut orders = vec![
        of("web", json!({"image": "nginx:1", "variables": {"A": "b"}})),
        of("cron", json!({"image": "report:1", "schedule": "@daily"})),
        of("web", json!({"image": "nginx:1", "min_replicas": 2, "max_replicas": 6})),
        of("worker", json!({"image": "work:1", "replicas": 3})),
        crate::domains::order(crate::domains::with_issuer()),
        crate::domains::order(crate::domains::with_gateway()),
        given::project_order(),
    ];
    for name in ["worker", "gpu-job"] {
        orders.push(of(name, json!({"image": "work:1"})));
    }
    for name in ["minecraft", "postgres", "redis"] {
        orders.push(of(name, json!({})));
    }
    orders
}

#[test]
fn a_class_of_nodes_is_chosen_and_its_taint_is_borne() {
    for order in orders() {
        let Body::Service(body) = &order.body else { continue };
        let mut sold = order.clone();
        let nodes = Some("fast".parse().expect("a name"));
        let spec = trueup_model::spec::Spec { nodes, ..body.spec.clone() };
        sold.body =
            Body::Service(Box::new(trueup_model::order::ServiceBody { spec, ..(**body).clone() }));
        let pods: Vec<Value> =
            objects(&sold).iter().filter_map(pod_template).map(|pod| pod["spec"].clone()).collect();
        assert_eq!(pods.len(), 1, "{sold:?}");
        assert_eq!(pods[0]["nodeSelector"], json!({"trueup.dev/node-class": "fast"}));
        let borne = json!([{"key": "trueup.dev/node-class", "operator": "Equal", "value": "fast"}]);
        assert_eq!(pods[0]["tolerations"], borne);
    }
}

#[test]
fn the_keys_are_known_before_anything_is_rendered() {
    for order in orders() {
        let mut rendered: Vec<_> = objects(&order).into_iter().map(|one| one.key).collect();
        rendered.sort();
        let mut keys = render::keys(&order);
        if let Body::Service(body) = &order.body {
            let next = names::anchor(&body.object_name, 2);
            keys.retain(|key| key.name != next);
            // What others make for us is recorded, and not rendered.
            keys.retain(|key| key.kind != Kind::Secret || !key.name.ends_with("-tls"));
        }
        assert_eq!(rendered, keys.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn every_object_carries_labels_and_a_proof_of_its_own() {
    let proofs = given::proofs();
    for order in orders() {
        for Rendered { key, object, .. } in objects(&order) {
            let metadata = &object["metadata"];
            assert_eq!(metadata["labels"][names::MANAGED_BY], names::MANAGER, "{key}");
            assert_eq!(metadata["labels"][names::ORG_LABEL], order.org.to_string(), "{key}");
            let proof = metadata["annotations"][names::PROOF_ANNOTATION].as_str().unwrap();
            assert!(proofs.holds(order.unit, &key, proof), "{key}");
            assert!(metadata["generateName"].is_null(), "{key}");
            let namespace = metadata["namespace"].as_str().unwrap_or_default();
            assert_eq!((namespace, &metadata["name"]), (key.namespace.as_str(), &json!(key.name)));
        }
    }
}

/// F48: the collector of Kubernetes deletes what names an owner it cannot see.
#[test]
fn owners_are_anchors_of_the_same_namespace_and_volumes_have_none() {
    for order in orders() {
        for Rendered { key, object, .. } in objects(&order) {
            let owners = object["metadata"]["ownerReferences"].as_array();
            let anchor = key.name.contains("-anchor-");
            if anchor || key.kind == Kind::PersistentVolumeClaim || order.body == Body::Project {
                assert_eq!(owners, None, "{key}");
                continue;
            }
            let owners = owners.unwrap();
            assert_eq!(owners.len(), 1, "{key}");
            assert_eq!(owners[0]["kind"], "ConfigMap", "{key}: an owner in its own namespace");
            assert!(owners[0]["name"].as_str().unwrap().ends_with("-anchor-1"), "{key}");
        }
    }
}

/// Everything a pod of ours ever says; S24 lists what must not be among it.
const POD_FIELDS: [&str; 7] = [
    "automountServiceAccountToken",
    "containers",
    "enableServiceLinks",
    "restartPolicy",
    "securityContext",
    "serviceAccountName",
    "volumes",
];

/// The pod that an object would make, if it makes any.
pub(crate) fn pod_template(rendered: &Rendered) -> Option<&Value> {
    let spec = &rendered.object["spec"];
    match rendered.key.kind {
        Kind::Deployment | Kind::StatefulSet | Kind::Job => Some(&spec["template"]),
        Kind::CronJob => Some(&spec["jobTemplate"]["spec"]["template"]),
        _ => None,
    }
}

#[test]
fn pods_ask_for_nothing_privileged() {
    for order in orders() {
        for rendered in objects(&order) {
            let Some(template) = pod_template(&rendered) else { continue };
            let Rendered { key, object, .. } = &rendered;
            let pod = &template["spec"];
            for field in pod.as_object().unwrap().keys() {
                assert!(POD_FIELDS.contains(&field.as_str()), "{key} says {field}");
            }
            assert_eq!(pod["automountServiceAccountToken"], false);
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
            assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
            let container = &pod["containers"][0];
            let expected = json!({
                "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
            });
            assert_eq!(container["securityContext"], expected, "{key}");
            assert!(container["ports"][0]["hostPort"].is_null(), "{key}");
            let labels = &template["metadata"]["labels"];
            if matches!(key.kind, Kind::Deployment | Kind::StatefulSet) {
                assert_eq!(labels, &object["spec"]["selector"]["matchLabels"], "{key}");
            }
            assert_eq!(labels.as_object().map(|labels| labels.len()), Some(1), "{key}");
        }
    }
}

#[test]
fn a_secret_is_only_ever_in_the_secret() {
    for order in orders() {
        let Body::Service(body) = &order.body else { continue };
        for Rendered { key, object, .. } in objects(&order) {
            let text = object.to_string();
            for value in body.secrets.values() {
                assert!(!text.contains(value.reveal()), "{key} says a secret in clear");
            }
            let has_data = key.kind == Kind::Secret && object["data"] != Value::Null;
            assert_eq!(key.kind == Kind::Secret, has_data, "{key}");
        }
        let debug = format!("{order:?} {:?}", objects(&order));
        for value in body.secrets.values() {
            let encoded = data_encoding::BASE64.encode(value.reveal().as_bytes());
            assert!(!debug.contains(value.reveal()) && !debug.contains(&encoded), "{debug}");
        }
    }
}
