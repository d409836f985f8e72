//! The comparison under the watches.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use trueup_cluster::Cluster;
use trueup_cluster::kube::Kube;
use trueup_model::key::Kind;
use trueup_model::report::Change;
use trueup_rules::names;
use trueup_testkit::fake_cluster::FakeCluster;
use trueup_testkit::manual_clock::ManualClock;
use trueup_testkit::real_kube;

use crate::rig::{Rig, healthy, key, web};

#[tokio::test]
async fn f28_what_a_watch_never_said_is_found_within_ten_minutes_and_quiet_costs_no_write() {
    let fake = FakeCluster::new();
    let clock = ManualClock::new();
    let mut rig = Rig::on_clock(Arc::new(fake.clone()), 77_000, Arc::new(clock.clone()));
    rig.running(web(1)).await;
    let order = rig.service(1, web(1));
    let config = key(&order, Kind::ConfigMap, names::config);
    let service = key(&order, Kind::Service, str::to_owned);
    for kind in [Kind::ConfigMap, Kind::Service] {
        fake.set_deaf(kind, true);
    }
    fake.edit(&config, |live| live["data"]["GREETING"] = json!("changed unheard"));
    fake.remove(&service);
    for kind in [Kind::ConfigMap, Kind::Service] {
        fake.set_deaf(kind, false);
    }
    let mut told = Vec::new();
    while told.len() < 2 {
        rig.fence.open(Duration::ZERO, Duration::from_secs(360_000));
        clock.advance(Duration::from_secs(30));
        while let Ok(report) =
            tokio::time::timeout(Duration::from_millis(20), rig.reports.recv()).await
        {
            told.extend(report.expect("a report").changes);
        }
        assert!(
            rig.clock.monotonic() < Duration::from_secs(1_000),
            "both should be found in one round: {told:?}"
        );
    }
    assert!(told.contains(&Change::DeletedExternally { key: service.clone() }), "{told:?}");
    assert!(
        told.iter()
            .any(|it| matches!(it, Change::ModifiedExternally { key, .. } if *key == config)),
        "{told:?}"
    );
    let writes = fake.journal().len();
    for _ in 0..60 {
        clock.advance(Duration::from_secs(30));
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(fake.journal().len(), writes, "nothing changed, nothing is written");
}

#[tokio::test]
async fn a_list_of_versions_has_no_content_on_a_real_cluster() {
    let kubeconfig = real_kube::shared().await;
    let kube = Arc::new(Kube::from_kubeconfig(&kubeconfig).expect("should be a kubeconfig"));
    let cluster: Arc<dyn Cluster> = Arc::<Kube>::clone(&kube);
    let mut rig = Rig::start(cluster);
    let report = rig.running(web(1)).await;
    assert!(healthy(&report));
    let config = key(&rig.service(1, web(1)), Kind::ConfigMap, names::config);
    let list = kube.versions(Kind::ConfigMap).await.expect("it should list");
    let found = list.objects.iter().find(|it| it["metadata"]["name"] == config.name.as_str());
    let found = found.expect("it should be listed");
    assert_eq!(found["data"], json!(null));
    let whole = rig.get(&config).await.expect("it should be there");
    assert_eq!(found["metadata"]["resourceVersion"], whole["metadata"]["resourceVersion"]);
}
