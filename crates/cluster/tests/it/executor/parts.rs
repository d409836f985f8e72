//! F39: a kind that the cluster does not serve, or forbids, degrades only that kind.

use trueup_model::key::Kind;
use trueup_model::observation::{Absent, Missing};
use trueup_model::order::Order;
use trueup_model::report::Report;
use trueup_rules::render::names;
use trueup_testkit::fake_cluster::{Closed, FakeCluster};

use crate::rig::{Rig, converged, elastic, healthy, key, with_receipt};

const IMAGE: &str = "example:1";

fn missing(report: &Report) -> &[Missing] {
    report.observation.as_ref().map_or(&[], |seen| &seen.missing)
}

fn autoscaler(order: &Order) -> trueup_model::key::ResourceKey {
    key(order, Kind::HorizontalPodAutoscaler, str::to_owned)
}

fn without(kind: Kind, how: Closed) -> (FakeCluster, Rig) {
    let cluster = FakeCluster::new();
    cluster.close(kind, Some(how));
    let rig = Rig::fake(&cluster);
    (cluster, rig)
}

#[tokio::test(start_paused = true)]
async fn f39_unserved_kind_degrades_only_that_kind() {
    for (how, why) in [
        (Closed::Unserved, Absent::Unserved),
        (Closed::Forbidden, Absent::Forbidden),
        (Closed::ReadOnly, Absent::Forbidden),
        (Closed::Failing, Absent::Unavailable),
    ] {
        let kind = Kind::HorizontalPodAutoscaler;
        let (_cluster, mut rig) = without(kind, how);
        let report = rig.running(elastic(IMAGE, 2, 5)).await;
        assert!(converged(&report), "{how:?}: everything else should converge");
        assert_eq!(missing(&report), [Missing { kind, why }], "{how:?}");
        let kinds = report.observation.expect("something should be seen").objects;
        assert!(kinds.iter().any(|seen| seen.key.kind == Kind::PodDisruptionBudget), "{how:?}");
    }
}

/// A kind that was listed once and fails later does not affect other kinds, either.
#[tokio::test(start_paused = true)]
async fn f39_kind_with_a_failing_server_blocks_nothing_else_and_recovers() {
    let kind = Kind::HorizontalPodAutoscaler;
    let (cluster, mut rig) = without(kind, Closed::Failing);
    rig.running(elastic(IMAGE, 2, 5)).await;
    let order = rig.service(1, elastic(IMAGE, 2, 5));
    cluster.close(kind, None);
    rig.until(order.unit, |report| healthy(report) && missing(report).is_empty()).await;
    assert!(rig.get(&autoscaler(&order)).await.is_some());
    cluster.close(kind, Some(Closed::Failing));
    let other = rig.namesake(1, crate::rig::web(1));
    rig.order_until(other, healthy).await;
}

#[tokio::test(start_paused = true)]
async fn unserved_kind_that_a_service_does_not_need_is_not_reported() {
    let (_cluster, mut rig) = without(Kind::ServiceMonitor, Closed::Unserved);
    let report = rig.running(elastic(IMAGE, 2, 5)).await;
    assert_eq!(missing(&report), []);
}

#[tokio::test(start_paused = true)]
async fn f39_kind_that_is_installed_later_is_used_without_a_restart() {
    let (cluster, mut rig) = without(Kind::HorizontalPodAutoscaler, Closed::Unserved);
    let order = rig.service(1, elastic(IMAGE, 2, 5));
    rig.running(elastic(IMAGE, 2, 5)).await;
    cluster.close(Kind::HorizontalPodAutoscaler, None);
    rig.until(order.unit, |report| healthy(report) && missing(report).is_empty()).await;
    assert!(rig.get(&autoscaler(&order)).await.is_some());
    // When it is forbidden again, that is reported again.
    cluster.close(Kind::HorizontalPodAutoscaler, Some(Closed::Forbidden));
    rig.until(order.unit, |report| healthy(report) && !missing(report).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn kind_that_is_no_longer_served_does_not_block_a_deletion() {
    let cluster = FakeCluster::new();
    let mut rig = Rig::fake(&cluster);
    rig.running(elastic(IMAGE, 2, 5)).await;
    cluster.close(Kind::HorizontalPodAutoscaler, Some(Closed::Unserved));
    let report = rig.order_until(rig.gone(2, elastic(IMAGE, 2, 5)), with_receipt).await;
    assert!(report.receipt.is_some());
}

/// What we may not read may still exist.
#[tokio::test(start_paused = true)]
async fn f39_forbidden_kind_blocks_a_deletion() {
    let cluster = FakeCluster::new();
    let mut rig = Rig::fake(&cluster);
    rig.running(elastic(IMAGE, 2, 5)).await;
    cluster.close(Kind::HorizontalPodAutoscaler, Some(Closed::Forbidden));
    let order = rig.gone(2, elastic(IMAGE, 2, 5));
    let anchor = key(&order, Kind::ConfigMap, |name| names::anchor(name, 1));
    let _passed = rig.executor.order(order.clone()).await;
    rig.get_until(&anchor, |found| found.is_none()).await;
    rig.until(order.unit, |report| {
        matches!(report.outcome, trueup_model::report::Outcome::Failed { .. })
    })
    .await;
    cluster.close(Kind::HorizontalPodAutoscaler, None);
    rig.until(order.unit, with_receipt).await;
}

/// A kind that pods need is not optional.
#[tokio::test(start_paused = true)]
async fn f39_without_an_essential_kind_nothing_is_written() {
    let (cluster, rig) = without(Kind::ConfigMap, Closed::Forbidden);
    let passed = rig.executor.order(rig.project()).await.await.expect("an outcome should come");
    assert!(matches!(passed, trueup_model::report::Outcome::Deferred { .. }), "{passed:?}");
    assert_eq!(cluster.journal(), []);
}
