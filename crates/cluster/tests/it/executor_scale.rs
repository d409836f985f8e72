//! Who sets the number of replicas: handed over to an autoscaler, left to it, and taken back.

use futures::FutureExt;
use serde_json::{Value, json};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;
use trueup_model::report::Report;
use trueup_model::service::DesiredState;
use trueup_rules::render::names::GENERATION_LABEL;
use trueup_testkit::fake_cluster::{FakeCluster, Verb};

use crate::executor::Check;
use crate::rig::{Rig, converged, elastic, healthy, key, web, with_receipt};

/// Every behaviour with its description.
pub(crate) fn checks() -> Vec<(&'static str, Check)> {
    vec![
        ("an autoscaler starts from the current number of replicas", |rig| hands_over(rig).boxed()),
        ("the autoscaler's number of replicas is left alone", |rig| leaves_alone(rig).boxed()),
        ("without autoscaling, the number of replicas is ours again", |rig| {
            takes_back(rig).boxed()
        }),
        ("resuming brings pods back, with or without an autoscaler", |rig| pauses(rig).boxed()),
        ("several replicas have a disruption budget, one has none", |rig| budgets(rig).boxed()),
    ]
}

const IMAGE: &str = "example:1";

fn workload(order: &Order) -> ResourceKey {
    key(order, Kind::Deployment, str::to_owned)
}

fn wants(report: &Report, pods: u32) -> bool {
    let seen = report.observation.as_ref().and_then(|seen| seen.workload.as_ref());
    healthy(report) && seen.is_some_and(|workload| workload.wanted == pods)
}

async fn scale(rig: &Rig, key: &ResourceKey, pods: u32) {
    let patch = json!({"spec": {"replicas": pods}});
    rig.cluster.patch(key, &patch).await.expect("another writer should be able to scale");
}

async fn live(rig: &Rig, key: &ResourceKey) -> Value {
    rig.get(key).await.expect("should be there")
}

fn pods(report: &Report) -> Vec<String> {
    let seen = report.observation.iter().flat_map(|seen| &seen.pods);
    seen.map(|pod| pod.uid.clone()).collect()
}

/// If `replicas` had ever been dropped, pods would have been replaced.
async fn hands_over(mut rig: Rig) {
    let before = rig.running(web(3)).await;
    let order = rig.service(2, elastic(IMAGE, 2, 5));
    let report = rig.order_until(order.clone(), |report| wants(report, 3)).await;
    assert_eq!(pods(&report), pods(&before));
    let after = live(&rig, &workload(&order)).await;
    assert_eq!(after["spec"]["replicas"], 3);
    let autoscaler = live(&rig, &key(&order, Kind::HorizontalPodAutoscaler, str::to_owned)).await;
    assert_eq!(autoscaler["spec"]["scaleTargetRef"]["name"], after["metadata"]["name"]);
    assert_eq!(autoscaler["spec"]["maxReplicas"], 5);
}

async fn leaves_alone(mut rig: Rig) {
    rig.running(elastic(IMAGE, 2, 5)).await;
    let order = rig.service(1, elastic(IMAGE, 2, 5));
    scale(&rig, &workload(&order), 4).await;
    let report = rig.until(order.unit, |report| wants(report, 4)).await;
    assert_eq!(report.changes, [], "nothing was reverted");
    // An update of ours, after that of the autoscaler, keeps its number.
    let order = rig.service(2, elastic("example:2", 2, 5));
    rig.order_until(order.clone(), |report| wants(report, 4)).await;
    let after = live(&rig, &workload(&order)).await;
    assert_eq!(after["metadata"]["labels"][GENERATION_LABEL], "2");
    // And the autoscaler still sets the number.
    scale(&rig, &workload(&order), 2).await;
    let report = rig.until(order.unit, |report| wants(report, 2)).await;
    assert_eq!(report.changes, []);
}

async fn takes_back(mut rig: Rig) {
    rig.running(elastic(IMAGE, 2, 5)).await;
    let order = Rig::after(&rig.service(1, elastic(IMAGE, 2, 5)), rig.service(2, web(1)));
    scale(&rig, &workload(&order), 4).await;
    rig.order_until(order.clone(), |report| wants(report, 1)).await;
    let autoscaler = key(&order, Kind::HorizontalPodAutoscaler, str::to_owned);
    assert_eq!(rig.get(&autoscaler).await, None);
    // From here on another number is drift, and is reverted.
    scale(&rig, &workload(&order), 3).await;
    rig.get_until(&workload(&order), |live| live.is_some_and(|live| live["spec"]["replicas"] == 1))
        .await;
    rig.order_until(rig.gone(3, web(1)), with_receipt).await;
}

async fn pauses(mut rig: Rig) {
    rig.running(elastic(IMAGE, 2, 5)).await;
    let paused = Order { desired: DesiredState::Paused, ..rig.service(2, elastic(IMAGE, 2, 5)) };
    rig.order_until(paused, |report| wants(report, 0)).await;
    let order = rig.service(3, elastic(IMAGE, 2, 5));
    rig.order_until(order, |report| wants(report, 2)).await;
}

async fn budgets(mut rig: Rig) {
    rig.running(web(2)).await;
    let order = Rig::after(&rig.service(1, web(2)), rig.service(2, web(1)));
    let budget = key(&order, Kind::PodDisruptionBudget, str::to_owned);
    assert_eq!(live(&rig, &budget).await["spec"]["maxUnavailable"], 1);
    rig.order_until(order, |report| converged(report) && wants(report, 1)).await;
    assert_eq!(rig.get(&budget).await, None);
}

/// Others change the number; we write nothing.
#[tokio::test(start_paused = true)]
async fn autoscaler_decisions_cause_no_write() {
    let cluster = FakeCluster::new();
    let mut rig = Rig::fake(&cluster);
    rig.running(elastic(IMAGE, 2, 5)).await;
    let order = rig.service(1, elastic(IMAGE, 2, 5));
    let writes = cluster.journal().len();
    for pods in [3, 5, 2, 4] {
        cluster.edit(&workload(&order), |live| live["spec"]["replicas"] = pods.into());
        rig.until(order.unit, |report| wants(report, pods)).await;
    }
    assert_eq!(cluster.journal()[writes..], []);
}

/// The autoscaler decides between our read and our write: its number stays.
#[tokio::test(start_paused = true)]
async fn autoscaler_decision_between_read_and_write_is_kept() {
    let cluster = FakeCluster::new();
    let mut rig = Rig::fake(&cluster);
    rig.running(elastic(IMAGE, 2, 5)).await;
    let order = rig.service(2, elastic("example:2", 2, 5));
    let deployment = workload(&order);
    let (theirs, at) = (cluster.clone(), deployment.clone());
    cluster.on_write(move |_, write| {
        // The anchor is written first: the workload was read, and is not written yet.
        if write.verb == Verb::Apply && write.key.kind == Kind::ConfigMap {
            theirs.edit(&at, |live| live["spec"]["replicas"] = 5.into());
        }
        trueup_testkit::fake_cluster::Then::Answer
    });
    rig.order_until(order, |report| wants(report, 5)).await;
    assert_eq!(live(&rig, &deployment).await["spec"]["replicas"], 5);
}
