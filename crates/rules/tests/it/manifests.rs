//! Checks of the rendered objects: no privileges, owners only in the same namespace.

use serde_json::{Value, json};
use trueup_model::key::Kind;
use trueup_model::order::{Body, Order};
use trueup_rules::render::proof::ProofKey;
use trueup_rules::render::{self, Rendered, names};

use crate::given;

/// Every rendered object of an order.
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
        |name: &str, parameters| given::order(&given::accepted(&given::template(name), parameters));
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
fn a_node_class_is_selected_and_its_taint_tolerated() {
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
        let tolerations =
            json!([{"key": "trueup.dev/node-class", "operator": "Equal", "value": "fast"}]);
        assert_eq!(pods[0]["tolerations"], tolerations);
    }
}

#[test]
fn keys_match_the_rendered_objects() {
    for order in orders() {
        let mut rendered: Vec<_> = objects(&order).into_iter().map(|one| one.key).collect();
        rendered.sort();
        let mut keys = render::keys(&order);
        if let Body::Service(body) = &order.body {
            let next = names::anchor(&body.object_name, 2);
            keys.retain(|key| key.name != next);
            // A Secret that cert-manager creates is recorded, but not rendered.
            keys.retain(|key| key.kind != Kind::Secret || !key.name.ends_with("-tls"));
        }
        assert_eq!(rendered, keys.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn every_object_has_labels_and_a_valid_proof() {
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

/// F48: the garbage collector deletes objects whose owner it cannot see.
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

/// All fields of our pods; S24 lists forbidden ones.
const POD_FIELDS: [&str; 10] = [
    "automountServiceAccountToken",
    "containers",
    "dnsPolicy",
    "enableServiceLinks",
    "restartPolicy",
    "schedulerName",
    "securityContext",
    "serviceAccountName",
    "terminationGracePeriodSeconds",
    "volumes",
];

/// The pod template of an object, if it has one.
pub(crate) fn pod_template(rendered: &Rendered) -> Option<&Value> {
    let spec = &rendered.object["spec"];
    match rendered.key.kind {
        Kind::Deployment | Kind::StatefulSet | Kind::Job => Some(&spec["template"]),
        Kind::CronJob => Some(&spec["jobTemplate"]["spec"]["template"]),
        _ => None,
    }
}

#[test]
fn pods_request_no_privileges() {
    for order in orders() {
        for rendered in objects(&order) {
            let Some(template) = pod_template(&rendered) else { continue };
            let Rendered { key, object, .. } = &rendered;
            let pod = &template["spec"];
            for field in pod.as_object().unwrap().keys() {
                assert!(POD_FIELDS.contains(&field.as_str()), "{key} has {field}");
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
fn secret_values_appear_only_in_the_secret_object() {
    for order in orders() {
        let Body::Service(body) = &order.body else { continue };
        for Rendered { key, object, .. } in objects(&order) {
            let text = object.to_string();
            for value in body.secrets.values() {
                assert!(!text.contains(value.reveal()), "{key} has a secret in plain text");
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

/// M5: what a pod may write is bounded, and releases that were accepted before stay as they were.
#[test]
fn pods_are_bounded_from_version_2_on_and_unchanged_before() {
    let pod = |name: &str, change: fn(&mut trueup_model::spec::Spec)| {
        let mut accepted = given::accepted(&given::template(name), json!({"image": "work:1"}));
        change(&mut accepted.spec);
        let order = given::order(&accepted);
        objects(&order).iter().find_map(|one| pod_template(one).cloned()).expect("a pod")["spec"]
            .clone()
    };
    let main = |pod: &Value| pod["containers"][0].clone();
    for name in ["web", "worker", "job"] {
        let (before, after) = (pod(name, |_| {}), pod(&format!("{name}-2"), |_| {}));
        assert!(before["volumes"].is_null() && main(&before)["volumeMounts"].is_null(), "{name}");
        assert!(main(&before)["securityContext"]["readOnlyRootFilesystem"].is_null(), "{name}");
        assert_eq!(main(&after)["securityContext"]["readOnlyRootFilesystem"], true, "{name}");
        assert_eq!(
            main(&after)["volumeMounts"],
            json!([{"name": "scratch-0", "mountPath": "/tmp"}])
        );
        let size = if name == "job" { "1Gi" } else { "256Mi" };
        let scratch = json!([{"name": "scratch-0", "emptyDir": {"sizeLimit": size}}]);
        assert_eq!(after["volumes"], scratch, "{name}");
        for pod in [before, after] {
            let resources = &main(&pod)["resources"];
            assert!(
                resources["limits"]["ephemeral-storage"].is_null(),
                "the project's limit holds"
            );
        }
    }
    let planned = main(&pod("web", |spec| spec.resources.ephemeral_mib = 5120));
    for kind in ["limits", "requests"] {
        assert_eq!(planned["resources"][kind]["ephemeral-storage"], "5Gi");
    }
    let redis = {
        let order = given::order(&given::accepted(&given::template("redis-2"), json!({})));
        objects(&order).iter().find_map(|one| pod_template(one).cloned()).expect("a pod")
    };
    let mounts = &redis["spec"]["containers"][0]["volumeMounts"];
    assert_eq!(
        (&mounts[0]["mountPath"], &mounts[1]["mountPath"]),
        (&json!("/data"), &json!("/tmp"))
    );
}

/// M5: every pod of a project gets a limit, and reserves nothing by it.
#[test]
fn project_bounds_the_nodes_disk() {
    let objects = objects(&given::project_order());
    let of = |kind| {
        let found = objects.iter().find(|one| one.key.kind == kind);
        found.expect("an object of the project").object["spec"].clone()
    };
    let limits = &of(Kind::LimitRange)["limits"][0];
    assert_eq!(limits["default"]["ephemeral-storage"], "2Gi");
    assert_eq!(limits["defaultRequest"]["ephemeral-storage"], "0");
    assert_eq!(of(Kind::ResourceQuota)["hard"]["limits.ephemeral-storage"], "4000Gi");
}
