//! Causes outside Trueup, produced on a real API server by its own scheduler and controllers. For
//! what nodes report about containers, see `simulated` and `real_node`.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use serde_json::{Value, json};
use trueup_cluster::Cluster;
use trueup_cluster::kube::Kube;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::{Cause, Observation, Run};
use trueup_model::report::Report;
use trueup_model::spec::Spec;
use trueup_testkit::fake_cluster::{Controllers, FakeCluster};
use trueup_testkit::real_kube;

use crate::rig::{Rig, converged, game, key, run, web};

/// The causes of all pods and of the workload.
fn causes(seen: &Observation) -> Vec<Cause> {
    let stuck = seen.workload.as_ref().and_then(|workload| workload.stuck.as_ref());
    let pods = seen.pods.iter().filter_map(|pod| pod.problem.as_ref());
    pods.chain(stuck).map(|problem| problem.cause).collect()
}

pub(crate) fn shows(report: &Report, cause: Cause) -> bool {
    report.observation.as_ref().is_some_and(|seen| causes(seen).contains(&cause))
}

pub(crate) async fn real() -> (Arc<dyn Cluster>, kube::Client) {
    let path = real_kube::shared().await;
    let kubeconfig = kube::config::Kubeconfig::read_from(&path).expect("should be a kubeconfig");
    let config = kube::Config::try_from(kubeconfig).expect("should be a kubeconfig");
    let client = kube::Client::try_from(config).expect("should be a client");
    (Arc::new(Kube::from_kubeconfig(&path).expect("should be a kubeconfig")), client)
}

#[tokio::test]
async fn real_scheduler_names_the_missing_resource() {
    let (cluster, _) = real().await;
    for (cause, change) in [
        (Cause::NoCpu, json!({ "cpu_millis": 900_000, "memory_mib": 64 })),
        (Cause::NoGpu, json!({ "cpu_millis": 10, "memory_mib": 64, "gpus": 99 })),
    ] {
        let mut rig = Rig::start(Arc::clone(&cluster));
        let mut spec = web(1);
        spec.resources = serde_json::from_value(change).expect("should be resources");
        rig.order_until(rig.project(), converged).await;
        let order = rig.service(1, spec);
        let unit = order.unit;
        let _passed = rig.executor.order(order).await;
        rig.until(unit, |report| shows(report, cause)).await;
    }
}

/// Limits the pods in this namespace.
async fn tighten(client: &kube::Client, namespace: &str, pods: &str) {
    limit(client, namespace, "pods", pods).await;
}

/// Creates a quota for one resource in this namespace.
pub(crate) async fn limit(client: &kube::Client, namespace: &str, of: &str, most: &str) {
    let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "tight" },
        "spec": { "hard": { of: most } } });
    let path = format!("/api/v1/namespaces/{namespace}/resourcequotas");
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(quota.to_string().into_bytes()).expect("should be a request");
    let _made: Value = client.request(request).await.expect("should make a quota");
}

/// F35: the status of a set or job does not say that its pods are rejected; the events do.
#[tokio::test]
async fn f35_events_explain_a_real_set_and_a_real_job_without_pods() {
    let job = run(&json!({ "workload": "job" }));
    tokio::join!(refused_by_quota(game(), "0"), refused_by_quota(job, "0"));
}

/// F35: events are read only when something takes long, and again only after a while.
#[tokio::test(start_paused = true)]
async fn f35_events_are_read_after_a_delay() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.order_until(rig.project(), converged).await;
    fake.set_controllers(Controllers::Manual);
    let order = rig.service(1, game());
    rig.order_until(order.clone(), converged).await;
    let set = key(&order, Kind::StatefulSet, str::to_owned);
    let began = rig.clock.monotonic();
    fake.warn(&set, "FailedCreate", "exceeded quota: tight", rig.clock.now());
    rig.until(order.unit, |report| shows(report, Cause::QuotaExceeded)).await;
    let after = rig.clock.monotonic().saturating_sub(began);
    assert!(after >= Duration::from_secs(20), "events should not be read at once: {after:?}");
    assert!(after <= Duration::from_secs(120), "the cause should be reported soon: {after:?}");
}

/// A cron that cannot create a Job changes no object, so no watch event triggers the pass.
#[tokio::test(start_paused = true)]
async fn cron_that_cannot_create_a_job_is_named() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.order_until(rig.project(), converged).await;
    fake.set_controllers(Controllers::Manual);
    let order = rig.service(1, run(&json!({ "workload": "cron_job", "schedule": "* * * * *" })));
    rig.order_until(order.clone(), converged).await;
    let cron = key(&order, Kind::CronJob, str::to_owned);
    let began = rig.clock.monotonic();
    let ran_at = rig.clock.now().to_string();
    fake.edit(&cron, |cron| {
        cron["status"] = json!({ "lastScheduleTime": ran_at, "lastSuccessfulTime": ran_at });
    });
    // It is about a later run than the one that succeeded.
    let failed_at = rig.clock.now().checked_add(Duration::from_secs(70)).expect("a time");
    let quota = "Error creating job: jobs.batch is forbidden: exceeded quota: tight";
    fake.warn(&cron, "FailedCreate", quota, failed_at);
    let report = rig.until(order.unit, |report| shows(report, Cause::QuotaExceeded)).await;
    let after = rig.clock.monotonic().saturating_sub(began);
    assert!(after >= Duration::from_secs(60), "a run may be a minute late: {after:?}");
    assert!(after <= Duration::from_secs(170), "the cause should be reported soon: {after:?}");
    let workload = report.observation.and_then(|seen| seen.workload).expect("should be seen");
    let last = workload.runs.expect("a cron should have runs").last;
    assert!(matches!(last, Run::Failed { .. }), "{last:?}");
}

/// A quota of a real cluster allows only this many pods, and the observation names the quota.
async fn refused_by_quota(spec: Spec, pods: &str) {
    let (cluster, client) = real().await;
    let mut rig = Rig::start(cluster);
    rig.order_until(rig.project(), converged).await;
    let order = rig.service(1, spec);
    tighten(&client, &order.namespace, pods).await;
    let unit = order.unit;
    let _passed = rig.executor.order(order).await;
    let report = rig.until(unit, |report| shows(report, Cause::QuotaExceeded)).await;
    let workload = report.observation.and_then(|seen| seen.workload).expect("should be seen");
    let detail = workload.stuck.expect("should be stuck").detail;
    assert!(detail.contains("exceeded quota: tight"), "{detail}");
}

/// F35: the cluster accepts the Deployment, and the quota rejects its pods.
#[tokio::test]
async fn f35_real_quota_that_rejects_pods_is_named() {
    refused_by_quota(web(3), "1").await;
}

#[tokio::test(start_paused = true)]
async fn lost_node_is_named_by_its_pods_until_it_returns() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(web(2)).await;
    let order = rig.service(1, web(2));
    let node = fake.objects(Kind::Node).remove(0);
    let node =
        ResourceKey::new(Kind::Node, "", node["metadata"]["name"].as_str().unwrap_or_default());
    let set = |ready: &'static str| {
        fake.edit(&node, |node| node["status"]["conditions"][0]["status"] = ready.into());
    };
    set("Unknown");
    let report = rig.until(order.unit, |report| shows(report, Cause::NodeLost)).await;
    let seen = report.observation.expect("should be seen");
    assert_eq!(causes(&seen).len(), 2, "both pods are on it");
    set("True");
    let well =
        |report: &Report| report.observation.as_ref().is_some_and(|seen| causes(seen).is_empty());
    rig.until(order.unit, well).await;
    fake.remove(&node);
    rig.until(order.unit, |report| shows(report, Cause::NodeLost)).await;
    let deployment = key(&order, Kind::Deployment, str::to_owned);
    assert!(rig.get(&deployment).await.is_some());
}
