//! The comparison under the watches.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use trueup_cluster::Cluster;
use trueup_cluster::kube::Kube;
use trueup_model::key::Kind;
use trueup_model::report::ObjectChange;
use trueup_rules::render::names;
use trueup_testkit::fake_cluster::{FakeCluster, Verb};
use trueup_testkit::real_kube;

use crate::rig::{Rig, at_rest, healthy, key, web};

/// A round over all kinds takes ten minutes, and each share of it up to a quarter more.
const ROUND: Duration = Duration::from_secs(750);

#[tokio::test(start_paused = true)]
async fn f28_what_a_watch_never_said_is_found_within_a_round_and_quiet_costs_no_write() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(web(1)).await;
    let order = rig.service(1, web(1));
    let config = key(&order, Kind::ConfigMap, names::config);
    let service = key(&order, Kind::Service, str::to_owned);
    for kind in [Kind::ConfigMap, Kind::Service] {
        fake.set_deaf(kind, true);
    }
    fake.edit(&config, |live| live["data"]["GREETING"] = json!("changed unheard"));
    fake.remove(&service);
    at_rest().await;
    for kind in [Kind::ConfigMap, Kind::Service] {
        fake.set_deaf(kind, false);
    }
    at_rest().await;
    assert_eq!(fake.find(&service), None, "the watches should have said nothing");
    let mut told = Vec::new();
    let both = async {
        while told.len() < 2 {
            told.extend(rig.reports.recv().await.expect("a report").changes);
        }
    };
    let found = tokio::time::timeout(ROUND, both).await;
    assert!(found.is_ok(), "both should be found in one round: {told:?}");
    assert!(told.contains(&ObjectChange::DeletedExternally { key: service.clone() }), "{told:?}");
    assert!(
        told.iter()
            .any(|it| matches!(it, ObjectChange::ModifiedExternally { key, .. } if *key == config)),
        "{told:?}"
    );
    let writes = fake.journal().len();
    let compared = |kind: &Kind| fake.calls(Verb::List, *kind);
    let before: Vec<usize> = Kind::WATCHED.iter().map(compared).collect();
    tokio::time::sleep(2 * ROUND).await;
    for (kind, before) in Kind::WATCHED.iter().zip(before) {
        assert!(compared(kind) >= before + 2, "{kind} should be compared in each round");
    }
    assert_eq!(fake.journal()[writes..], [], "nothing changed, nothing is written");
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
