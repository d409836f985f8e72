//! Resync: changes that the watches missed.

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

/// A round over all kinds takes a minute and a half, plus up to a quarter of jitter.
const ROUND: Duration = Duration::from_secs(113);

#[tokio::test(start_paused = true)]
async fn f28_missed_watch_events_are_found_in_one_round_and_an_idle_round_writes_nothing() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(web(1)).await;
    let order = rig.service(1, web(1));
    let config = key(&order, Kind::ConfigMap, names::config);
    let service = key(&order, Kind::Service, str::to_owned);
    for kind in [Kind::ConfigMap, Kind::Service] {
        fake.set_deaf(kind, true);
    }
    fake.edit(&config, |live| live["data"]["GREETING"] = json!("changed unseen"));
    fake.remove(&service);
    at_rest().await;
    for kind in [Kind::ConfigMap, Kind::Service] {
        fake.set_deaf(kind, false);
    }
    at_rest().await;
    assert_eq!(fake.find(&service), None, "the watches should have reported nothing");
    let mut changes = Vec::new();
    let both = async {
        while changes.len() < 2 {
            changes.extend(rig.reports.recv().await.expect("a report").changes);
        }
    };
    let found = tokio::time::timeout(ROUND, both).await;
    assert!(found.is_ok(), "both should be found in one round: {changes:?}");
    assert!(
        changes.contains(&ObjectChange::DeletedExternally { key: service.clone() }),
        "{changes:?}"
    );
    assert!(
        changes
            .iter()
            .any(|it| matches!(it, ObjectChange::ModifiedExternally { key, .. } if *key == config)),
        "{changes:?}"
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
async fn version_list_of_a_real_cluster_has_metadata_only() {
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

/// Secrets are not watched: a value that was changed or removed outside is found by its version.
#[tokio::test(start_paused = true)]
async fn changed_secret_is_found_in_one_round_and_an_unchanged_one_is_not_read() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(web(1)).await;
    let secret = key(&rig.service(1, web(1)), Kind::Secret, names::secret);
    let stored = fake.find(&secret).expect("it should be there")["data"].clone();
    at_rest().await;
    let reads = fake.calls(Verb::Get, Kind::Secret);
    tokio::time::sleep(2 * ROUND).await;
    assert_eq!(fake.calls(Verb::Get, Kind::Secret), reads, "an unchanged secret is not read");

    fake.edit(&secret, |live| live["data"] = json!({}));
    tokio::time::sleep(ROUND).await;
    assert_eq!(fake.find(&secret).expect("it should be there")["data"], stored);
}
