//! Drift: the report names the field manager, and additions by others at open paths are left alone.

use std::sync::Arc;

use http::Request;
use serde_json::{Value, json};
use trueup_cluster::kube::Kube;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Unit;
use trueup_model::report::Outcome;
use trueup_rules::render::names;
use trueup_testkit::fake_cluster::{FOREIGN_MANAGER, FakeCluster};
use trueup_testkit::real_kube;

use crate::rig::{Rig, game, key, reverted, web};
use crate::wire;

/// Writes with another field manager, as any other tool does.
async fn patch_as(client: &kube::Client, manager: &str, path: &str, patch: &Value) {
    let request = Request::patch(format!("{path}?fieldManager={manager}"))
        .header("content-type", "application/strategic-merge-patch+json")
        .body(patch.to_string().into_bytes())
        .expect("a request");
    client.request::<Value>(request).await.expect("the patch should be accepted");
}

#[tokio::test]
async fn f45_edit_is_reported_with_its_field_manager_on_a_real_cluster() {
    let kubeconfig = real_kube::shared().await;
    let mut rig =
        Rig::start(Arc::new(Kube::from_kubeconfig(&kubeconfig).expect("should be a kubeconfig")));
    let client = wire::client(&kubeconfig);
    rig.running(web(1)).await;
    let order = rig.service(1, web(1));
    let deployment = key(&order, Kind::Deployment, str::to_owned);
    let path = format!(
        "/apis/apps/v1/namespaces/{}/deployments/{}",
        deployment.namespace, deployment.name
    );

    let env = json!([{ "name": "THEIRS", "value": "1" }]);
    let containers = json!([{ "name": "main", "env": env }]);
    let patch = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
    patch_as(&client, "meddler", &path, &patch).await;
    let report = rig.until(order.unit, |report| !report.changes.is_empty()).await;
    let field = "spec.template.spec.containers.main.env.THEIRS";
    assert_eq!(reverted(&report, &deployment), [(field, Some("meddler"))]);

    patch_as(&client, "meddler", &path, &json!({ "spec": { "replicas": 3 } })).await;
    let report = rig.until(order.unit, |report| !report.changes.is_empty()).await;
    assert_eq!(reverted(&report, &deployment), [("spec.replicas", Some("meddler"))]);
}

/// Changes one field of an object's spec as another writer, and waits until it is changed back.
async fn is_repaired(
    rig: &mut Rig,
    client: &kube::Client,
    (unit, object): (Unit, &ResourceKey),
    (place, spec): (&str, Value),
) {
    let before = rig.get(object).await.expect("it should be there").pointer(place).cloned();
    let (kind, version) = (object.kind, object.kind.api_version());
    let root = if version.contains('/') { "apis" } else { "api" };
    let path = format!(
        "/{root}/{version}/namespaces/{}/{}/{}",
        object.namespace,
        kind.plural(),
        object.name
    );
    patch_as(client, "meddler", &path, &json!({ "spec": spec })).await;
    let field = place.trim_start_matches('/').replace('/', ".");
    let is_it = |(found, _): (&str, Option<&str>)| found.starts_with(&field);
    rig.until(unit, |report| reverted(report, object).into_iter().any(is_it)).await;
    let is_back =
        |found: Option<&Value>| found.is_some_and(|live| live.pointer(place).cloned() == before);
    rig.get_until(object, is_back).await;
}

/// Of these fields Trueup states the server's default, or closes them: see `render::stated`.
#[tokio::test]
async fn outside_changes_of_stated_defaults_are_repaired() {
    let kubeconfig = real_kube::shared().await;
    let client = wire::client(&kubeconfig);
    let kube = || Arc::new(Kube::from_kubeconfig(&kubeconfig).expect("should be a kubeconfig"));
    let mut rig = Rig::start(kube());
    rig.running(web(1)).await;
    let order = rig.service(1, web(1));
    let deployment = key(&order, Kind::Deployment, str::to_owned);
    let pod = |spec: Value| json!({ "template": { "spec": spec } });
    let container = |own: Value| pod(json!({ "containers": [own] }));
    for change in [
        ("/spec/strategy", json!({ "strategy": { "type": "Recreate", "rollingUpdate": null } })),
        ("/spec/progressDeadlineSeconds", json!({ "progressDeadlineSeconds": 99 })),
        ("/spec/minReadySeconds", json!({ "minReadySeconds": 7 })),
        ("/spec/paused", json!({ "paused": true })),
        (
            "/spec/template/spec/terminationGracePeriodSeconds",
            pod(json!({ "terminationGracePeriodSeconds": 1 })),
        ),
        ("/spec/template/spec/dnsPolicy", pod(json!({ "dnsPolicy": "Default" }))),
        (
            "/spec/template/spec/containers",
            container(json!({ "name": "main", "imagePullPolicy": "Always" })),
        ),
    ] {
        is_repaired(&mut rig, &client, (order.unit, &deployment), change).await;
    }
    let service = key(&order, Kind::Service, str::to_owned);
    for change in [
        ("/spec/type", json!({ "type": "NodePort" })),
        ("/spec/sessionAffinity", json!({ "sessionAffinity": "ClientIP" })),
        ("/spec/internalTrafficPolicy", json!({ "internalTrafficPolicy": "Local" })),
        ("/spec/publishNotReadyAddresses", json!({ "publishNotReadyAddresses": true })),
    ] {
        is_repaired(&mut rig, &client, (order.unit, &service), change).await;
    }

    let mut rig = Rig::start(kube());
    rig.running(game()).await;
    let order = rig.service(1, game());
    let set = key(&order, Kind::StatefulSet, str::to_owned);
    let retention = json!({ "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete" } });
    for change in [
        (
            "/spec/updateStrategy",
            json!({ "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } }),
        ),
        ("/spec/persistentVolumeClaimRetentionPolicy", retention),
    ] {
        is_repaired(&mut rig, &client, (order.unit, &set), change).await;
    }
}

#[tokio::test(start_paused = true)]
async fn f45_edit_is_reported_once_and_open_paths_cause_no_write() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(web(1)).await;
    let order = rig.service(1, web(1));
    let config = key(&order, Kind::ConfigMap, names::config);
    fake.edit(&config, |live| live["data"]["EXTRA"] = json!("1"));
    let report = rig.until(order.unit, |report| !report.changes.is_empty()).await;
    assert_eq!(reverted(&report, &config), [("data.EXTRA", Some(FOREIGN_MANAGER))]);

    let writes = fake.journal().len();
    let deployment = key(&order, Kind::Deployment, str::to_owned);
    fake.edit(&deployment, |live| {
        live["metadata"]["labels"]["team"] = json!("red");
        live["spec"]["revisionHistoryLimit"] = json!(3);
    });
    let passed = rig.executor.order(order).await.await;
    assert_eq!(passed, Ok(Outcome::Converged));
    assert_eq!(fake.journal().len(), writes, "{:?}", fake.journal());
}
