//! Controls of the fake cluster for tests.

use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use trueup_cluster::{CallError, Cluster, Scope, WatchEvent};
use trueup_model::key::{Kind, ResourceKey};
use trueup_testkit::fake_cluster::{Controllers, FakeCluster, Then, Verb, When};

fn config(name: &str) -> (ResourceKey, Value) {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name, "labels": { "app.kubernetes.io/managed-by": "trueup" } },
        "data": { "a": "1" },
    });
    (ResourceKey::new(Kind::ConfigMap, "team", name), object)
}

fn with_namespace() -> FakeCluster {
    let cluster = FakeCluster::new();
    cluster.edit(&ResourceKey::new(Kind::Namespace, "", "team"), |_| {});
    cluster
}

#[tokio::test(start_paused = true)]
async fn unreachable_cluster_does_nothing_and_ends_its_watches() {
    let cluster = with_namespace();
    let (key, object) = config("one");
    let from = cluster.list(Kind::ConfigMap, Scope::Ours).await.unwrap().version;
    let mut watch = cluster.watch(Kind::ConfigMap, from);
    cluster.set_reachable(false);
    assert!(matches!(watch.next().await, Some(Err(CallError::Unreachable(_)))));
    assert_eq!(watch.next().await, None);
    let outcome = cluster.apply(&key, &object).await;
    assert!(matches!(outcome, Err(CallError::Unreachable(_))));
    cluster.set_reachable(true);
    assert_eq!(cluster.get(&key).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn fault_happens_before_or_after_the_effect() {
    let cluster = with_namespace();
    let (key, object) = config("one");
    let lost = || CallError::Unanswered("lost".to_owned());
    cluster.fail_next(Verb::Apply, lost(), When::Before);
    cluster.fail_next(Verb::Apply, lost(), When::After);
    assert_eq!(cluster.apply(&key, &object).await, Err(lost()));
    assert!(cluster.get(&key).await.unwrap().is_none() && cluster.effects().is_empty());
    assert_eq!(cluster.apply(&key, &object).await, Err(lost()));
    assert!(cluster.get(&key).await.unwrap().is_some());
    assert_eq!(cluster.effects().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn every_write_that_reaches_the_server_is_in_its_journal() {
    let cluster = with_namespace();
    let (key, object) = config("one");
    cluster.set_reachable(false);
    cluster.apply(&key, &object).await.unwrap_err();
    cluster.set_reachable(true);
    cluster.fail_next(Verb::Apply, CallError::Server("broken".to_owned()), When::Before);
    cluster.apply(&key, &object).await.unwrap_err();
    let made = cluster.apply(&key, &object).await.unwrap();
    cluster.apply(&key, &object).await.unwrap();
    cluster.delete(&key, "another", "1").await.unwrap_err();
    let journal = cluster.journal();
    let writes: Vec<_> = journal.iter().map(|it| (it.verb, it.created, it.effective)).collect();
    let nothing = (Verb::Apply, false, false);
    assert_eq!(
        writes,
        [nothing, (Verb::Apply, true, true), nothing, (Verb::Delete, false, false)],
        "a failure, a create, a no-op, and a failed precondition"
    );
    assert_eq!(journal[1].uid, made["metadata"]["uid"]);
    assert_eq!(cluster.effects(), journal[1..2]);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "these injected faults never happened")]
async fn unused_fault_fails_the_test() {
    let cluster = with_namespace();
    cluster.fail_next(Verb::Delete, CallError::Expired, When::Before);
    let (key, object) = config("one");
    cluster.apply(&key, &object).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn caller_can_be_stopped_at_its_second_write() {
    let cluster = with_namespace();
    cluster.on_write(|number, _| if number == 2 { Then::Hang } else { Then::Answer });
    let writes = async {
        for name in ["one", "two", "three"] {
            let (key, object) = config(name);
            cluster.apply(&key, &object).await.unwrap();
        }
    };
    assert!(tokio::time::timeout(Duration::from_millis(50), writes).await.is_err());
    let names: Vec<_> = cluster.journal().into_iter().map(|write| write.key.name).collect();
    assert_eq!(names, ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn compacted_history_expires_open_and_new_watches() {
    let cluster = with_namespace();
    let (key, object) = config("one");
    let from = cluster.list(Kind::ConfigMap, Scope::Ours).await.unwrap().version;
    let made = cluster.apply(&key, &object).await.unwrap();
    let mut watch = cluster.watch(Kind::ConfigMap, from.clone());
    assert_eq!(watch.next().await, Some(Ok(WatchEvent::Present(made))));
    cluster.compact();
    assert_eq!(watch.next().await, Some(Err(CallError::Expired)));
    let mut watch = cluster.watch(Kind::ConfigMap, from);
    assert_eq!(watch.next().await, Some(Err(CallError::Expired)));
    assert_eq!(watch.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn equivalent_runs_have_equal_snapshots_and_different_counts() {
    let (key, object) = config("one");
    let direct = with_namespace();
    direct.apply(&key, &object).await.unwrap();
    let detour = with_namespace();
    detour.apply(&key, &object).await.unwrap();
    detour.remove(&key);
    detour.apply(&key, &object).await.unwrap();
    assert_eq!(direct.snapshot(), detour.snapshot());
    assert_eq!((direct.counts()[&key].creates, direct.counts()[&key].deletes), (1, 0));
    assert_eq!((detour.counts()[&key].creates, detour.counts()[&key].deletes), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn manual_controllers_wait_until_they_are_run() {
    let cluster = with_namespace();
    cluster.set_controllers(Controllers::Manual);
    let key = ResourceKey::new(Kind::Deployment, "team", "web");
    cluster.edit(&key, |object| {
        object["spec"] = json!({
            "replicas": 2,
            "selector": { "matchLabels": { "trueup.dev/name": "web" } },
            "template": {
                "metadata": { "labels": { "trueup.dev/name": "web" } },
                "spec": { "containers": [{ "name": "main", "image": "web:1" }] },
            },
        });
    });
    assert!(cluster.objects(Kind::Pod).is_empty());
    cluster.settle_controllers();
    assert_eq!(cluster.objects(Kind::Pod).len(), 2);
}
