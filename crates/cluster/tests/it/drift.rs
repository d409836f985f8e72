//! Drift: the report names the field manager, and additions by others at open paths are left alone.

use std::sync::Arc;

use http::Request;
use serde_json::{Value, json};
use trueup_cluster::kube::Kube;
use trueup_model::key::Kind;
use trueup_model::report::{ObjectChange, Outcome};
use trueup_rules::render::names;
use trueup_testkit::fake_cluster::{FOREIGN_MANAGER, FakeCluster};
use trueup_testkit::real_kube;

use crate::rig::{Rig, key, web};
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
    let by = Some("meddler".to_owned());
    let field = "spec.template.spec.containers.main.env.THEIRS".to_owned();
    let pruned =
        ObjectChange::ModifiedExternally { key: deployment.clone(), field, by: by.clone() };
    assert_eq!(report.changes, [pruned]);

    patch_as(&client, "meddler", &path, &json!({ "spec": { "replicas": 3 } })).await;
    let report = rig.until(order.unit, |report| !report.changes.is_empty()).await;
    let field = "spec.replicas".to_owned();
    let reverted = ObjectChange::ModifiedExternally { key: deployment.clone(), field, by };
    assert_eq!(report.changes, [reverted]);
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
    let (field, by) = ("data.EXTRA".to_owned(), Some(FOREIGN_MANAGER.to_owned()));
    assert_eq!(
        report.changes,
        [ObjectChange::ModifiedExternally { key: config.clone(), field, by }]
    );

    let writes = fake.journal().len();
    let deployment = key(&order, Kind::Deployment, str::to_owned);
    fake.edit(&deployment, |live| {
        live["metadata"]["labels"]["team"] = json!("red");
        live["spec"]["minReadySeconds"] = json!(3);
    });
    let passed = rig.executor.order(order).await.await;
    assert_eq!(passed, Ok(Outcome::Converged));
    assert_eq!(fake.journal().len(), writes, "{:?}", fake.journal());
}
