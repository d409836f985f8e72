//! Behaviours of the executor, on the fake cluster and on a real one; there with the permissions of
//! its two accounts only (`rbac`).

pub(crate) mod definitions;
mod forced;
pub(crate) mod hosts;
mod parts;
mod surveys;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use serde_json::json;
use trueup_cluster::Cluster;
use trueup_model::freeze::{Freeze, FreezeScope};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;
use trueup_model::receipt::{Force, ProofLevel};
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_model::spec::Spec;
use trueup_rules::render::names;
use trueup_testkit::fake_cluster::FakeCluster;

use crate::rig::{Rig, converged, game, healthy, key, reverted, web, with_receipt};

pub(crate) type Check = fn(Rig) -> BoxFuture<'static, ()>;

/// Every behaviour with its description.
fn checks() -> Vec<(&'static str, Check)> {
    vec![
        ("an order becomes a running workload", |rig| runs(rig).boxed()),
        ("the same order again writes nothing", |rig| is_quiet(rig).boxed()),
        ("a newer generation is applied", |rig| updates(rig).boxed()),
        ("an object deleted by others is recreated", |rig| recreates(rig).boxed()),
        ("an edit by others is reverted", |rig| reverts(rig).boxed()),
        ("a frozen service that loses its pods reports it", |rig| reports_frozen(rig).boxed()),
        ("an addition by others at a closed path is pruned", |rig| prunes(rig).boxed()),
        ("a deletion ends with a receipt", |rig| deletes(rig).boxed()),
        ("a deletion removes the claim and its volume", |rig| deletes_disk(rig).boxed()),
        ("a set that shrank leaves no claim behind", |rig| deletes_shrunk(rig).boxed()),
        ("a foreign finalizer is named, and the deletion waits for it", |rig| {
            waits_for_others(rig).boxed()
        }),
        ("force-completing deletes nothing more; a namesake is independent", |rig| {
            forces(rig).boxed()
        }),
        ("deleting a project deletes its namespace", |rig| ends_project(rig).boxed()),
        ("deleting a project waits for its services", |rig| outlasts_services(rig).boxed()),
        ("a foreign object keeps its namespace", |rig| keeps_namespace(rig).boxed()),
        ("a foreign object is never touched", |rig| spares(rig, true).boxed()),
        ("nor is a foreign object without our label, which no watch reports", |rig| {
            spares(rig, false).boxed()
        }),
        ("an anchor deleted from outside is replaced", |rig| reanchors(rig).boxed()),
        ("a closed fence blocks every write", |rig| obeys_fence(rig).boxed()),
        ("a new executor has nothing left to do", |rig| resumes(rig).boxed()),
    ]
}

/// The behaviours that fail on this cluster; their panics are in the output.
pub(crate) async fn failures(
    cluster: Arc<dyn Cluster>,
    start: fn(Arc<dyn Cluster>) -> Rig,
) -> Vec<&'static str> {
    let all = checks().into_iter().chain(crate::executor_runs::checks());
    let all = all.chain(crate::executor_scale::checks()).chain(hosts::checks());
    let all = all.chain(crate::dry_runs::checks()).chain(forced::checks());
    let runs = all.map(|(name, check)| {
        let cluster = Arc::clone(&cluster);
        async move {
            let rig = start(cluster);
            let ended = std::panic::AssertUnwindSafe(check(rig)).catch_unwind().await;
            ended.is_err().then_some(name)
        }
    });
    let ended: Vec<_> = stream::iter(runs).buffer_unordered(AT_ONCE).collect().await;
    ended.into_iter().flatten().collect()
}

/// Each rig watches every kind itself: more of them at once would only wait for the server.
const AT_ONCE: usize = 6;

#[tokio::test(start_paused = true)]
async fn executor_behaviours_hold_on_the_fake_cluster() {
    let failures = failures(Arc::new(FakeCluster::new()), Rig::in_virtual_time).await;
    assert!(failures.is_empty(), "{failures:#?}");
}

async fn runs(mut rig: Rig) {
    let report = rig.running(web(2)).await;
    let seen = report.observation.expect("something should be seen");
    let kinds: Vec<Kind> = seen.objects.iter().map(|object| object.key.kind).collect();
    let (config, budget) = (Kind::ConfigMap, Kind::PodDisruptionBudget);
    assert_eq!(kinds, [config, config, Kind::Secret, Kind::Deployment, Kind::Service, budget]);
    assert_eq!(seen.pods.len(), 2);
    assert!(seen.pods.iter().all(|pod| pod.ready));
}

async fn is_quiet(mut rig: Rig) {
    rig.running(web(1)).await;
    let order = rig.service(1, web(1));
    let mut before = Vec::new();
    for key in order.recorded.keys() {
        before.push(rig.get(key).await.map(|object| object["metadata"]["resourceVersion"].clone()));
    }
    let passed = rig.executor.order(order.clone()).await.await;
    assert_eq!(passed, Ok(Outcome::Converged));
    let mut after = Vec::new();
    for key in order.recorded.keys() {
        after.push(rig.get(key).await.map(|object| object["metadata"]["resourceVersion"].clone()));
    }
    assert_eq!(before, after);
}

async fn updates(mut rig: Rig) {
    rig.running(web(1)).await;
    let mut newer = web(3);
    newer.image = "example:2".to_owned();
    let order = rig.service(2, newer);
    let deployment = key(&order, Kind::Deployment, str::to_owned);
    let config = key(&order, Kind::ConfigMap, names::config);
    let untouched = rig.get(&config).await.expect("the ConfigMap should be there");
    let all_new = |report: &Report| {
        healthy(report) && report.observation.as_ref().is_some_and(|seen| seen.pods.len() == 3)
    };
    rig.order_until(order, all_new).await;
    let live = rig.get(&deployment).await.expect("the Deployment should be there");
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "example:2");
    assert_eq!(live["metadata"]["labels"][names::GENERATION_LABEL], "2");
    let config = rig.get(&config).await.expect("the ConfigMap should be there");
    assert_eq!(config["metadata"]["resourceVersion"], untouched["metadata"]["resourceVersion"]);
}

async fn recreates(mut rig: Rig) {
    rig.running(web(1)).await;
    let order = rig.service(1, web(1));
    let service = key(&order, Kind::Service, str::to_owned);
    let old = rig.get(&service).await.expect("the Service should be there");
    let text = |name: &str| {
        old["metadata"][name].as_str().expect("the test should be set up right").to_owned()
    };
    rig.cluster
        .delete(&service, &text("uid"), &text("resourceVersion"))
        .await
        .expect("the test should be set up right");
    let report = rig.until(order.unit, |report| !report.changes.is_empty()).await;
    assert_eq!(report.changes, [ObjectChange::DeletedExternally { key: service.clone() }]);
    rig.get_until(&service, |found| {
        found.is_some_and(|new| new["metadata"]["uid"] != old["metadata"]["uid"])
    })
    .await;
}

async fn reverts(mut rig: Rig) {
    rig.running(web(1)).await;
    let order = rig.service(1, web(1));
    let config = key(&order, Kind::ConfigMap, names::config);
    let patch = serde_json::json!({"data": {"GREETING": "changed by hand"}});
    rig.cluster.patch(&config, &patch).await.expect("the test should be set up right");
    let report = rig.until(order.unit, |report| !report.changes.is_empty()).await;
    // Here the other writer uses our field manager, so there is no other one to name.
    assert_eq!(reverted(&report, &config), [("data.GREETING", None)]);
    assert_eq!(report.changes.len(), 1, "{:?}", report.changes);
    rig.get_until(&config, |found| found.is_some_and(|live| live["data"]["GREETING"] == "hello"))
        .await;
}

/// Scaled to zero while frozen: the Deployment is satisfied, but the service is not.
async fn reports_frozen(mut rig: Rig) {
    rig.running(web(2)).await;
    let since = rig.clock.now();
    let (by, why) = ("an operator".to_owned(), "an audit".to_owned());
    let freeze = Freeze { scope: FreezeScope::Service, by, why, since };
    let order = Order { freeze: Some(freeze), ..rig.service(1, web(2)) };
    let deployment = key(&order, Kind::Deployment, str::to_owned);
    assert_eq!(rig.executor.order(order.clone()).await.await, Ok(Outcome::Converged));
    let patch = json!({ "spec": { "replicas": 0 } });
    rig.cluster.patch(&deployment, &patch).await.expect("the test should be set up right");
    let is_lost = |report: &Report| {
        let workload = report.observation.as_ref().and_then(|seen| seen.workload.as_ref());
        workload.is_some_and(|seen| (seen.ready, seen.existing, seen.wanted) == (0, 0, 2))
    };
    let report = rig.until(order.unit, is_lost).await;
    let Outcome::Frozen { why } = &report.outcome else {
        unreachable!("should be frozen, is {:?}", report.outcome)
    };
    assert!(why.contains("frozen since") && why.contains("unfrozen"), "{why}");
    let live = rig.get(&deployment).await.expect("the Deployment should be there");
    assert_eq!(live["spec"]["replicas"], 0, "nothing was repaired");
}

/// Another variable, another container, and a changed port.
async fn prunes(mut rig: Rig) {
    rig.running(web(1)).await;
    let order = rig.service(1, web(1));
    let deployment = key(&order, Kind::Deployment, str::to_owned);
    let live = rig.get(&deployment).await.expect("the Deployment should be there");
    let mut containers = live["spec"]["template"]["spec"]["containers"].clone();
    containers[0]["env"] = json!([{ "name": "LD_PRELOAD", "value": "theirs.so" }]);
    let miner = json!({ "name": "miner", "image": "miner:1", "resources": containers[0]["resources"],
                        "securityContext": containers[0]["securityContext"] });
    containers.as_array_mut().expect("a list").push(miner);
    let patch = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
    rig.cluster.patch(&deployment, &patch).await.expect("the test should be set up right");
    let report = rig.until(order.unit, |report| !report.changes.is_empty()).await;
    let containers = "spec.template.spec.containers";
    let (added, variable) =
        (format!("{containers}.miner"), format!("{containers}.main.env.LD_PRELOAD"));
    assert_eq!(reverted(&report, &deployment), [(&*variable, None), (&*added, None)]);
    assert_eq!(report.changes.len(), 1, "one write removes both: {:?}", report.changes);
    rig.get_until(&deployment, |found| {
        found.is_some_and(|live| {
            let containers = &live["spec"]["template"]["spec"]["containers"];
            containers.as_array().is_some_and(|list| list.len() == 1)
                && containers[0]["env"].as_array().is_none_or(Vec::is_empty)
        })
    })
    .await;

    let service = key(&order, Kind::Service, str::to_owned);
    let live = rig.get(&service).await.expect("the Service should be there");
    let mut ports = live["spec"]["ports"].clone();
    ports[0]["port"] = json!(9999);
    let patch = json!({ "spec": { "ports": ports, "externalIPs": ["203.0.113.7"] } });
    rig.cluster.patch(&service, &patch).await.expect("the test should be set up right");
    rig.get_until(&service, |found| {
        found.is_some_and(|live| {
            let ports = &live["spec"]["ports"];
            ports[0]["port"] == 8080 && ports[1].is_null() && live["spec"]["externalIPs"].is_null()
        })
    })
    .await;
    rig.until(order.unit, healthy).await;
}

async fn deletes(mut rig: Rig) {
    rig.running(web(2)).await;
    let order = rig.gone(2, web(2));
    let report = rig.order_until(order.clone(), with_receipt).await;
    let receipt = report.receipt.expect("a receipt should be there");
    assert_eq!(receipt.absent.len(), order.recorded.len());
    let seen = receipt.absent.iter().filter(|absence| absence.uid.is_some()).count();
    assert_eq!(seen, 6, "all but the anchor that was never created: {receipt:#?}");
    for key in order.recorded.keys() {
        assert_eq!(rig.get(key).await, None, "{key}");
    }
}

async fn deletes_disk(mut rig: Rig) {
    let report = rig.running(game()).await;
    let claim = report
        .observation
        .expect("something should be seen")
        .objects
        .into_iter()
        .find(|object| object.key.kind == Kind::PersistentVolumeClaim)
        .expect("the claim should be seen");
    let report = rig.order_until(rig.gone(2, game()), with_receipt).await;
    let receipt = report.receipt.expect("a receipt should be there");
    assert!(receipt.absent.iter().any(|absence| absence.uid.as_ref() == Some(&claim.uid)));
    let volumes = rig
        .cluster
        .list(Kind::PersistentVolume, trueup_cluster::Scope::All)
        .await
        .expect("volumes should be listed");
    let left = volumes
        .objects
        .iter()
        .any(|volume| volume["spec"]["claimRef"]["uid"] == claim.uid.as_str());
    assert!(!left, "the volume should be gone once there is a receipt");
}

/// The claim of a pod beyond the reduced replicas is still ours, and so is its volume.
async fn deletes_shrunk(mut rig: Rig) {
    let two = Spec { replicas: 2, ..game() };
    rig.running(two.clone()).await;
    let first = rig.service(1, two);
    let second = Rig::after(&first, rig.service(2, game()));
    rig.order_until(second.clone(), healthy).await;
    let claim = key(&first, Kind::PersistentVolumeClaim, |name| names::claim(name, 1));
    let kept = rig.get(&claim).await.expect("data should stay while its service exists");
    let gone = Rig::after(&first, rig.gone(3, game()));
    let report = rig.order_until(gone, with_receipt).await;
    let receipt = report.receipt.expect("a receipt should be there");
    let absence = receipt.absent.iter().find(|absence| absence.key == claim);
    let uid = absence.and_then(|absence| absence.uid.as_deref());
    assert_eq!(uid, kept["metadata"]["uid"].as_str(), "{receipt:#?}");
    assert_eq!(rig.get(&claim).await, None);
    let list = rig.cluster.list(Kind::PersistentVolume, trueup_cluster::Scope::All).await;
    let volumes = list.expect("volumes should be listed").objects;
    let left = volumes.iter().any(|it| it["spec"]["claimRef"]["uid"] == kept["metadata"]["uid"]);
    assert!(!left, "its volume should be gone, too");
}

/// F42: a foreign finalizer.
async fn waits_for_others(mut rig: Rig) {
    rig.running(web(1)).await;
    let gone = rig.gone(2, web(1));
    let config = key(&gone, Kind::ConfigMap, names::config);
    hold(&rig, &config, serde_json::json!(["example.com/hold"])).await;
    let named = |report: &Report| matches!(&report.outcome, Outcome::Waiting { on } if on.contains("`example.com/hold`"));
    let report = rig.order_until(gone.clone(), named).await;
    assert_eq!(report.receipt, None);
    hold(&rig, &config, serde_json::Value::Null).await;
    rig.until(gone.unit, with_receipt).await;
}

/// A blocked deletion is force-completed: nothing more is deleted, what is left is named, and a new
/// service of the same name uses other object names.
async fn forces(mut rig: Rig) {
    rig.running(web(1)).await;
    let gone = rig.gone(2, web(1));
    let config = key(&gone, Kind::ConfigMap, names::config);
    hold(&rig, &config, serde_json::json!(["example.com/hold"])).await;
    let held = |report: &Report| matches!(&report.outcome, Outcome::Waiting { on } if on.contains("`example.com/hold`"));
    rig.order_until(gone.clone(), held).await;
    let force =
        Force { principal: "owner".to_owned(), reason: "the controller is gone".to_owned() };
    let mut forced = Order { generation: 3, ..gone };
    forced.permit.force = Some(force.clone());
    let report = rig.order_until(forced, with_receipt).await;
    let receipt = report.receipt.expect("a receipt should be there");
    assert_eq!((receipt.level, receipt.force.as_ref()), (ProofLevel::Forced, Some(&force)));
    let left: Vec<_> = receipt.unproven.iter().map(|left| &left.key).collect();
    assert!(left.contains(&&config), "{receipt:#?}");
    assert!(!receipt.absent.iter().any(|absence| left.contains(&&absence.key)));
    let before = rig.get(&config).await.expect("the finalizer keeps it");
    rig.order_until(rig.namesake(1, web(1)), healthy).await;
    assert_eq!(rig.get(&config).await, Some(before), "the remaining object is not touched");
    hold(&rig, &config, serde_json::Value::Null).await;
}

async fn ends_project(mut rig: Rig) {
    rig.order_until(rig.project(), converged).await;
    let report = rig.order_until(rig.project_end(), with_receipt).await;
    let receipt = report.receipt.expect("a receipt should be there");
    let known = receipt.absent.iter().filter(|absence| absence.uid.is_some()).count();
    assert_eq!(known, receipt.absent.len(), "every uid is known: {receipt:#?}");
    let survey = receipt.survey.expect("the namespace should have been surveyed");
    assert!(survey.kinds.contains("Secret") && survey.kinds.contains("Deployment.apps"));
    assert!(!survey.kinds.contains("Widget.example.com"), "the last survey counts: {survey:?}");
    let namespace = ResourceKey::new(Kind::Namespace, "", &rig.project().namespace);
    assert_eq!(rig.get(&namespace).await, None);
}

/// The services are deleted first; then the namespace, also while Kubernetes still cleans up.
async fn outlasts_services(mut rig: Rig) {
    rig.running(game()).await;
    let mut end = rig.project_end();
    end.permit.tenants.insert("web".to_owned());
    let waits = |report: &Report| matches!(&report.outcome, Outcome::Waiting { on } if on == "its services to be gone: web");
    rig.order_until(end.clone(), waits).await;
    rig.order_until(rig.gone(2, game()), with_receipt).await;
    end.permit.tenants.clear();
    rig.order_until(end, with_receipt).await;
}

async fn keeps_namespace(mut rig: Rig) {
    rig.order_until(rig.project(), converged).await;
    let end = rig.project_end();
    let theirs = ResourceKey::new(Kind::ConfigMap, &end.namespace, "precious");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "precious"}});
    let made = rig.cluster.apply(&theirs, &object).await.expect("the test should be set up right");
    let named = |report: &Report| matches!(&report.outcome, Outcome::Blocked { why } if why.contains("ConfigMap/precious;"));
    rig.order_until(end.clone(), named).await;
    let namespace = ResourceKey::new(Kind::Namespace, "", &end.namespace);
    let live = rig.get(&namespace).await.expect("it should be kept");
    assert!(live["metadata"]["deletionTimestamp"].is_null(), "{live}");
    let text = |name: &str| made["metadata"][name].as_str().unwrap_or_default().to_owned();
    let removed = rig.cluster.delete(&theirs, &text("uid"), &text("resourceVersion")).await;
    removed.expect("the test should be set up right");
    rig.until(end.unit, with_receipt).await;
}

/// Sets these finalizers on an object, as another writer.
async fn hold(rig: &Rig, key: &ResourceKey, finalizers: serde_json::Value) {
    let patch = serde_json::json!({"metadata": {"finalizers": finalizers}});
    rig.cluster.patch(key, &patch).await.expect("the test should be set up right");
}

/// A foreign object at one of our keys; with or without our label, it has no proof.
async fn spares(mut rig: Rig, labelled: bool) {
    rig.order_until(rig.project(), converged).await;
    let order = rig.service(1, web(1));
    let config = key(&order, Kind::ConfigMap, names::config);
    let labels = if labelled {
        serde_json::json!({names::MANAGED_BY: names::MANAGER})
    } else {
        serde_json::json!({})
    };
    let foreign = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": config.name, "namespace": config.namespace,
                     "labels": labels},
        "data": {"precious": "data"},
    });
    rig.cluster.apply(&config, &foreign).await.expect("the test should be set up right");
    let service = order.unit;
    let _passed = rig.executor.order(order).await;
    let report =
        rig.until(service, |report| matches!(report.outcome, Outcome::Blocked { .. })).await;
    assert!(format!("{:?}", report.outcome).contains(&config.name), "{:?}", report.outcome);
    rig.order_until(rig.gone(2, web(1)), with_receipt).await;
    let left = rig.get(&config).await.expect("the foreign object should be left alone");
    assert_eq!(left["data"]["precious"], "data");
}

async fn reanchors(mut rig: Rig) {
    rig.running(web(1)).await;
    let order = rig.service(1, web(1));
    let first = key(&order, Kind::ConfigMap, |name| names::anchor(name, 1));
    let second = key(&order, Kind::ConfigMap, |name| names::anchor(name, 2));
    let deployment = key(&order, Kind::Deployment, str::to_owned);
    let anchor = rig.get(&first).await.expect("the anchor should be there");
    let uid_before =
        rig.get(&deployment).await.expect("the test should be set up right")["metadata"]["uid"]
            .clone();
    let text = |name: &str| {
        anchor["metadata"][name].as_str().expect("the test should be set up right").to_owned()
    };
    rig.cluster
        .delete(&first, &text("uid"), &text("resourceVersion"))
        .await
        .expect("the test should be set up right");
    rig.get_until(&first, |found| found.is_none()).await;
    let second = rig.get(&second).await.expect("the next anchor should be there");
    let deployment = rig.get(&deployment).await.expect("the Deployment should have stayed");
    assert_eq!(deployment["metadata"]["uid"], uid_before, "the workload was not recreated");
    assert_eq!(deployment["metadata"]["ownerReferences"][0]["uid"], second["metadata"]["uid"]);
}

async fn obeys_fence(mut rig: Rig) {
    rig.order_until(rig.project(), converged).await;
    rig.fence.close();
    let order = rig.service(1, web(1));
    let deferred = |report: &Report| matches!(report.outcome, Outcome::Deferred { .. });
    rig.order_until(order.clone(), deferred).await;
    for key in order.recorded.keys() {
        assert_eq!(rig.get(key).await, None, "{key}");
    }
    rig.fence.open(rig.clock.monotonic(), std::time::Duration::from_secs(60));
    rig.until(order.unit, healthy).await;
}

async fn resumes(mut rig: Rig) {
    rig.running(web(1)).await;
    let mut rig = rig.restart();
    rig.order_until(rig.project(), converged).await;
    let report = rig.order_until(rig.service(1, web(1)), healthy).await;
    assert_eq!(report.changes, [], "nothing was left to do");
}
