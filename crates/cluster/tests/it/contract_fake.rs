//! The contract on the cluster in memory.

use std::sync::Arc;
use std::time::Duration;

use trueup_testkit::contract;
use trueup_testkit::fake_cluster::FakeCluster;

#[tokio::test]
async fn the_fake_cluster_keeps_the_contract() {
    let cluster = FakeCluster::new();
    cluster.set_watch_limit(Duration::from_secs(1));
    let failures = contract::failures(Arc::new(cluster)).await;
    assert!(failures.is_empty(), "{failures:#?}");
}
