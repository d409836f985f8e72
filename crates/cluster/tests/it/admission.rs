//! A real ValidatingAdmissionPolicy that rejects the objects or pods of a service.

use std::time::Duration;

use http::Request;
use serde_json::{Value, json};
use trueup_cluster::{CallError, Draft};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::Cause;
use trueup_model::order::Order;
use trueup_model::report::{Outcome, Report};

use crate::causes::{real, shows};
use crate::rig::{LONG, Rig, converged, healthy, key, web};

/// The policy's message.
const MESSAGE: &str = "not on Mondays";
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// A policy that rejects all new objects of a resource in one namespace.
struct Policy {
    client: kube::Client,
    name: String,
}

impl Policy {
    async fn make(client: &kube::Client, namespace: &str, group: &str, resource: &str) -> Self {
        let name = format!("no-{resource}-{namespace}");
        let here = json!({ "matchLabels": { "kubernetes.io/metadata.name": namespace } });
        let rule = json!({ "apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE"],
                           "resources": [resource] });
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": name },
            "spec": { "failurePolicy": "Fail", "matchConstraints": { "resourceRules": [rule] },
                      "validations": [{ "expression": "false", "message": MESSAGE }] },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding", "metadata": { "name": name },
            "spec": { "policyName": name, "validationActions": ["Deny"],
                      "matchResources": { "namespaceSelector": here } },
        });
        let this = Self { client: client.clone(), name };
        this.post("validatingadmissionpolicies", &policy).await;
        this.post("validatingadmissionpolicybindings", &binding).await;
        this
    }

    async fn post(&self, plural: &str, object: &Value) {
        let request = Request::post(format!("{GROUP}/{plural}"));
        let request = request.header("content-type", "application/json");
        let request = request.body(object.to_string().into_bytes()).expect("should be a request");
        let _made: Value = self.client.request(request).await.expect("it should be made");
    }

    async fn remove(self) {
        for plural in ["validatingadmissionpolicybindings", "validatingadmissionpolicies"] {
            let request = Request::delete(format!("{GROUP}/{plural}/{}", self.name));
            let request = request.body(Vec::new()).expect("should be a request");
            let _gone: Value = self.client.request(request).await.expect("it should be removed");
        }
    }
}

/// Waits until the policy is in force and rejects a new object of this kind.
async fn until_refused(rig: &Rig, order: &Order, kind: Kind, object: &Value) {
    let probe = ResourceKey::new(kind, &order.namespace, "probe");
    let mut last = None;
    let refused = async {
        loop {
            let answer = rig.cluster.dry_run(&probe, Draft::Apply(object)).await;
            if matches!(&answer, Err(CallError::Refused(message)) if message.contains(MESSAGE)) {
                return;
            }
            last = Some(answer);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let reached = tokio::time::timeout(LONG, refused).await;
    assert!(reached.is_ok(), "the policy should come into force: {last:?}");
}

/// A pod that violates no other rule of a project.
fn pod() -> Value {
    let limits = json!({ "cpu": "10m", "memory": "16Mi" });
    let container = json!({
        "name": "main", "image": "example:1", "resources": { "requests": limits, "limits": limits },
        "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
    });
    let context = json!({ "runAsNonRoot": true, "runAsUser": 1000,
                          "seccompProfile": { "type": "RuntimeDefault" } });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "probe" },
            "spec": { "securityContext": context, "containers": [container] } })
}

/// F34: an object of the service itself is rejected, and named with the policy's message.
#[tokio::test]
async fn f34_real_policy_that_rejects_an_object_is_named() {
    let (cluster, client) = real().await;
    let mut rig = Rig::start(cluster);
    rig.order_until(rig.project(), converged).await;
    let order = rig.service(1, web(1));
    let policy = Policy::make(&client, &order.namespace, "", "services").await;
    let probe = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "probe" },
                        "spec": { "ports": [{ "port": 80 }] } });
    until_refused(&rig, &order, Kind::Service, &probe).await;
    let is_refused = |report: &Report| matches!(report.outcome, Outcome::Refused { .. });
    let report = rig.order_until(order.clone(), is_refused).await;
    let Outcome::Refused { why } = &report.outcome else { unreachable!("as just waited for") };
    let service = key(&order, Kind::Service, str::to_owned);
    assert!(why.contains(&service.to_string()) && why.contains(MESSAGE), "{why}");
    policy.remove().await;
    rig.until(order.unit, healthy).await;
}

/// F35: the Deployment is accepted and its pods are rejected: the status names the policy.
#[tokio::test]
async fn f35_real_policy_that_rejects_pods_is_named() {
    let (cluster, client) = real().await;
    let mut rig = Rig::start(cluster);
    rig.order_until(rig.project(), converged).await;
    let order = rig.service(1, web(1));
    let policy = Policy::make(&client, &order.namespace, "", "pods").await;
    until_refused(&rig, &order, Kind::Pod, &pod()).await;
    let _passed = rig.executor.order(order.clone()).await;
    let report = rig.until(order.unit, |report| shows(report, Cause::NotAdmitted)).await;
    let workload = report.observation.and_then(|seen| seen.workload).expect("should be seen");
    let detail = workload.stuck.expect("should be stuck").detail;
    assert!(detail.contains(MESSAGE), "{detail}");
    policy.remove().await;
    rig.until(order.unit, healthy).await;
}
