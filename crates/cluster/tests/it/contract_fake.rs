//! The contract on the fake cluster.

use std::sync::Arc;
use std::time::Duration;

use trueup_model::key::Kind;
use trueup_testkit::contract;
use trueup_testkit::fake_cluster::{Closed, FakeCluster};

#[tokio::test(start_paused = true)]
async fn fake_cluster_keeps_the_contract() {
    let cluster = FakeCluster::new();
    cluster.set_watch_limit(Duration::from_secs(1));
    let failures = contract::failures(Arc::new(cluster)).await;
    assert!(failures.is_empty(), "{failures:#?}");
}

#[tokio::test(start_paused = true)]
async fn fake_cluster_tells_unserved_from_forbidden_kinds() {
    let cluster = FakeCluster::new();
    for (how, label) in [(Closed::Unserved, "unknown_kind"), (Closed::Forbidden, "forbidden")] {
        for kind in [Kind::ServiceMonitor, Kind::HorizontalPodAutoscaler] {
            cluster.close(kind, Some(how));
            let other = contract::closed::other_answers(&cluster, kind, label).await;
            assert!(other.is_empty(), "{kind}, {label}: {other:#?}");
        }
    }
}
