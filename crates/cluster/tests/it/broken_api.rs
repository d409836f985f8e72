//! An APIService without a backend, on a real API server: calls to its group fail, and discovery is
//! incomplete. The test has its own server, because no namespace deletion ends on it meanwhile.

use std::sync::Arc;

use http::Request;
use serde_json::{Value, json};
use trueup_cluster::kube::Kube;
use trueup_model::key::Kind;
use trueup_model::observation::{Absent, Missing};
use trueup_model::report::{Outcome, Report};
use trueup_model::spec::Spec;
use trueup_testkit::real_kube::OwnKube;

use crate::rig::{Rig, healthy, spec, with_receipt};
use crate::wire;

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// A service with a metrics port, which needs a ServiceMonitor: the kind of the broken APIService.
fn measured() -> Spec {
    spec(&json!({ "workload": "deployment", "replicas": 1,
        "ports": [{ "name": "http", "port": 8080 }, { "name": "metrics", "port": 9090 }] }))
}

/// Creates an APIService without a backend; returns its name.
async fn dangle(client: &kube::Client, group: &str) -> String {
    let name = format!("v1.{group}");
    let service = json!({ "name": "nothing", "namespace": "nowhere", "port": 443 });
    let object = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": { "name": name },
        "spec": { "group": group, "version": "v1", "service": service, "insecureSkipTLSVerify": true,
                  "groupPriorityMinimum": 1000, "versionPriority": 15 },
    });
    let request = Request::post(SERVICES).header("content-type", "application/json");
    let request = request.body(object.to_string().into_bytes()).expect("should be a request");
    let _made: Value = client.request(request).await.expect("the APIService should be accepted");
    name
}

/// F39, F43: only that kind is missing, a namespace with an incomplete survey is kept, and work
/// continues when the APIService is gone.
#[tokio::test]
async fn f43_real_apiservice_without_a_backend_is_named_and_degrades_only_its_kind() {
    let own = OwnKube::start("broken-api").await;
    let client = wire::client(own.kubeconfig());
    let name = dangle(&client, Kind::ServiceMonitor.group()).await;
    let kube = Kube::from_kubeconfig(own.kubeconfig()).expect("should be a kubeconfig");
    let mut rig = Rig::start(Arc::new(kube));
    let is_degraded = |report: &Report| {
        let missing = report.observation.as_ref().map(|seen| seen.missing.as_slice());
        let monitor = Missing { kind: Kind::ServiceMonitor, why: Absent::Unavailable };
        healthy(report) && missing == Some(&[monitor])
    };
    let _passed = rig.executor.order(rig.project()).await;
    rig.order_until(rig.service(1, measured()), is_degraded).await;

    let end = rig.project_end();
    let group = Kind::ServiceMonitor.group();
    let is_kept = |report: &Report| matches!(&report.outcome, Outcome::Blocked { why } if why.contains(group));
    let _passed = rig.executor.order(end.clone()).await;
    rig.until(end.unit, is_kept).await;

    let request = Request::delete(format!("{SERVICES}/{name}")).body(Vec::new());
    let request = request.expect("should be a request");
    let _gone: Value = client.request(request).await.expect("the APIService should be deleted");
    rig.order_until(rig.gone(2, measured()), with_receipt).await;
    rig.until(end.unit, with_receipt).await;
}
