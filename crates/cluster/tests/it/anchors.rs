//! Objects that are deleted, stripped of labels or imitated by others, and anchors that are newer
//! than their order.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use serde_json::{Value, json};
use trueup_cluster::CallError;
use trueup_cluster::kube::Kube;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_rules::render::names;
use trueup_testkit::fake_cluster::{FakeCluster, Then, Verb};
use trueup_testkit::real_kube;

use crate::rig::{Rig, converged, healthy, key, web, with_receipt};
use crate::wire;

fn anchor(order: &Order) -> ResourceKey {
    key(order, Kind::ConfigMap, |name| names::anchor(name, 1))
}

fn outdated(report: &Report) -> bool {
    matches!(report.outcome, Outcome::Outdated { .. })
}

#[tokio::test(start_paused = true)]
async fn f06_crash_after_creating_or_before_releasing_the_anchor_leaks_nothing() {
    let dies_at: [fn(Verb, &ResourceKey) -> bool; 2] = [
        // The anchor with its finalizer exists; it owns nothing yet.
        |verb, key| verb == Verb::Apply && key.name.contains("-anchor-"),
        // Everything is deleted; the anchor is terminating and still has its finalizer.
        |verb, key| verb == Verb::Delete && key.name.contains("-anchor-"),
    ];
    for dies in dies_at {
        let fake = FakeCluster::new();
        let died = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let once = Arc::clone(&died);
        fake.on_write(move |_, write| {
            let now = dies(write.verb, &write.key)
                && !once.swap(true, std::sync::atomic::Ordering::SeqCst);
            if now { Then::Hang } else { Then::Answer }
        });
        let mut rig = Rig::fake(&fake);
        rig.order_until(rig.project(), converged).await;
        let _passed = rig.executor.order(rig.service(1, web(1))).await;
        if dies(Verb::Delete, &anchor(&rig.service(1, web(1)))) {
            rig.until(rig.service(1, web(1)).unit, healthy).await;
            let _passed = rig.executor.order(rig.gone(2, web(1))).await;
        }
        rig.holds(|| died.load(std::sync::atomic::Ordering::SeqCst)).await;
        let mut rig = rig.restart();
        rig.order_until(rig.project(), converged).await;
        rig.order_until(rig.gone(3, web(1)), with_receipt).await;
        assert_eq!(fake.objects(Kind::ConfigMap), Vec::<Value>::new());
        assert_eq!(fake.objects(Kind::Deployment), Vec::<Value>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn f46_removed_label_is_restored_without_a_second_object() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(web(1)).await;
    let order = rig.service(1, web(1));
    for kind in [Kind::Service, Kind::Deployment] {
        let key = key(&order, kind, str::to_owned);
        let uid = rig.get(&key).await.expect("it should be there")["metadata"]["uid"].clone();
        fake.edit(&key, |live| live["metadata"]["labels"] = json!({}));
        let report = rig.until(order.unit, |report| !report.changes.is_empty()).await;
        assert!(
            matches!(&report.changes[..], [ObjectChange::ModifiedExternally { key: k, .. }] if *k == key),
            "{:?}",
            report.changes
        );
        let live = rig.get(&key).await.expect("it should be there");
        assert_eq!(live["metadata"]["labels"][names::MANAGED_BY], names::MANAGER);
        assert_eq!(live["metadata"]["uid"], uid);
        assert_eq!(fake.counts()[&key].creates, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn f46_namespace_deleted_by_others_is_recreated_with_everything() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(web(2)).await;
    let order = rig.service(1, web(2));
    let namespace = ResourceKey::new(Kind::Namespace, "", &order.namespace);
    let old = rig.get(&namespace).await.expect("it should be there")["metadata"]["uid"].clone();
    fake.remove(&namespace);
    rig.get_until(&namespace, |found| found.is_some_and(|live| live["metadata"]["uid"] != old))
        .await;
    let deployment = key(&order, Kind::Deployment, str::to_owned);
    let report = rig
        .until(order.unit, |report| {
            report.changes.contains(&ObjectChange::DeletedExternally { key: deployment.clone() })
        })
        .await;
    if !healthy(&report) {
        rig.until(order.unit, healthy).await;
    }
    assert_eq!(fake.counts()[&deployment].creates, 2);
}

#[tokio::test]
async fn f46_service_recovers_from_a_foreground_delete_of_its_anchor() {
    let kubeconfig = real_kube::shared().await;
    let mut rig =
        Rig::start(Arc::new(Kube::from_kubeconfig(&kubeconfig).expect("should be a kubeconfig")));
    let client = wire::client(&kubeconfig);
    rig.running(web(1)).await;
    let order = rig.service(1, web(1));
    let first = anchor(&order);
    let options =
        json!({ "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground" });
    let path = format!("/api/v1/namespaces/{}/configmaps/{}", first.namespace, first.name);
    let request = Request::delete(path)
        .header("content-type", "application/json")
        .body(options.to_string().into_bytes())
        .expect("a request");
    client.request::<Value>(request).await.expect("the delete should be accepted");
    rig.get_until(&first, |found| found.is_none()).await;
    let second = key(&order, Kind::ConfigMap, |name| names::anchor(name, 2));
    let uid = rig.get(&second).await.expect("the next anchor")["metadata"]["uid"].clone();
    // Whether the garbage collector or we were first: each exists once, owned by the next anchor.
    for kind in [Kind::Deployment, Kind::Service] {
        rig.get_until(&key(&order, kind, str::to_owned), |found| {
            found.is_some_and(|live| {
                live["metadata"]["ownerReferences"][0]["uid"] == uid
                    && live["metadata"]["deletionTimestamp"].is_null()
            })
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn f47_foreign_object_with_our_labels_is_not_deleted() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(web(1)).await;
    let order = rig.service(1, web(1));
    let ours = rig.get(&anchor(&order)).await.expect("the anchor");
    // Everything that can be copied, under a name that is not ours.
    let theirs = key(&order, Kind::ConfigMap, |name| format!("{name}-theirs"));
    fake.edit(&theirs, |live| {
        live["metadata"]["labels"] = ours["metadata"]["labels"].clone();
        live["metadata"]["annotations"] = ours["metadata"]["annotations"].clone();
        live["data"] = json!({ "precious": "data" });
    });
    rig.order_until(rig.gone(2, web(1)), with_receipt).await;
    let left = rig.get(&theirs).await.expect("it should be left alone");
    assert_eq!(left["data"]["precious"], "data");
}

#[tokio::test(start_paused = true)]
async fn f48_owners_are_in_the_same_namespace_and_claims_have_none() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(crate::rig::game()).await;
    for kind in Kind::WATCHED.into_iter().chain(Kind::READ).filter(|kind| *kind != Kind::Pod) {
        for object in fake.objects(kind) {
            let owners = object["metadata"]["ownerReferences"].as_array().cloned();
            for owner in owners.unwrap_or_default() {
                assert!(kind.is_namespaced() && kind != Kind::PersistentVolumeClaim, "{object}");
                let at = object["metadata"]["namespace"].as_str().expect("a namespace");
                let key =
                    ResourceKey::new(Kind::ConfigMap, at, owner["name"].as_str().expect("a name"));
                let found = rig.get(&key).await.expect("the owner in the same namespace");
                assert_eq!(found["metadata"]["uid"], owner["uid"]);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn f25_order_older_than_its_anchor_stops_the_service_without_a_write() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.order_until(rig.project(), converged).await;
    rig.order_until(rig.service(5, web(2)), healthy).await;
    let writes = fake.journal().len();

    // The database was restored: it has generation 3, and then a deletion at generation 4.
    let mut rig = rig.restart();
    rig.order_until(rig.project(), converged).await;
    for order in [rig.service(3, web(1)), rig.gone(4, web(1))] {
        let report = rig.order_until(order, outdated).await;
        let Outcome::Outdated { why } = &report.outcome else { unreachable!("as just waited for") };
        assert!(why.contains("generation 5") && why.contains("-anchor-1"), "{why}");
        assert!(
            report.observation.is_some_and(|seen| seen.pods.len() == 2),
            "the pods are still observed"
        );
    }
    assert_eq!(fake.journal().len(), writes, "nothing was written");
    // A generation newer than the anchor's continues.
    rig.order_until(rig.service(6, web(1)), healthy).await;
}

/// The database is behind. Three services show it: their anchors are newer than their orders, which
/// are deletions. Orders of others are as old without showing it: none of them deletes anything.
#[tokio::test(start_paused = true)]
async fn f16_three_services_ahead_of_the_database_stop_every_write_and_deletion() {
    let fake = FakeCluster::new();
    let mut rigs: Vec<Rig> = (0..6).map(|_| Rig::fake(&fake)).collect();
    for rig in &mut rigs {
        rig.order_until(rig.project(), converged).await;
        rig.order_until(rig.service(5, web(1)), healthy).await;
    }
    let before = fake.snapshot();
    // One executor gets the orders of all of them, and a new one.
    let mut rig = Rig::fake(&fake);
    rig.order_until(rig.project(), converged).await;
    let mut projects = Vec::new();
    let mut ends = Vec::new();
    for (number, old) in rigs.into_iter().enumerate() {
        ends.push(old.gone(if number < 3 { 4 } else { 6 }, web(1)));
        projects.push(old.project());
        drop(old);
    }
    for project in projects {
        rig.order_until(project, converged).await;
    }
    let writes = fake.journal().len();
    for (number, end) in ends.into_iter().enumerate() {
        let report = rig.order_until(end, outdated).await;
        let outcome = format!("{:?}", report.outcome);
        assert!(number < 3 || outcome.contains("3 services"), "{outcome}");
    }
    let report = rig.order_until(rig.service(1, web(1)), outdated).await;
    assert!(format!("{:?}", report.outcome).contains("3 services"), "{:?}", report.outcome);
    // Nor later, on a retry.
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(fake.journal()[writes..], [], "nothing was written and nothing deleted");
    let after = fake.snapshot();
    assert!(
        before.iter().all(|(name, object)| after.get(name) == Some(object)),
        "everything still runs"
    );
}

/// The delete takes effect and is answered with an error; before the next read another writer
/// creates an object of that name. Our object is gone, and the foreign one is left alone.
#[tokio::test(start_paused = true)]
async fn f33_unacknowledged_delete_does_not_touch_a_new_object_of_that_name() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(web(1)).await;
    let order = rig.service(1, web(1));
    let service = key(&order, Kind::Service, str::to_owned);
    let old = fake.find(&service).expect("it should be there")["metadata"]["uid"].clone();
    let (theirs, at) = (fake.clone(), service.clone());
    fake.on_write(move |_, write| {
        if write.verb != Verb::Delete || write.key != at {
            return Then::Answer;
        }
        theirs.edit(&at, |live| live["spec"] = json!({ "ports": [{ "port": 1 }] }));
        Then::Lose(CallError::Server("timeout".to_owned()))
    });
    let report = rig.order_until(rig.gone(2, web(1)), with_receipt).await;
    let receipt = report.receipt.expect("a receipt");
    let absence = receipt.absent.iter().find(|it| it.key == service).expect("it is named");
    assert_eq!(absence.uid.as_deref(), old.as_str(), "the absence is of the uid that we deleted");
    let new = fake.find(&service).expect("theirs should be there");
    assert_ne!(new["metadata"]["uid"], old);
    assert_eq!(new["spec"]["ports"][0]["port"], 1, "and as they made it");
    assert!(new["metadata"]["deletionTimestamp"].is_null(), "{new}");
    let deletes = fake.journal().into_iter().filter(|it| it.verb == Verb::Delete);
    let uids: Vec<String> = deletes.filter(|it| it.key == service).map(|it| it.uid).collect();
    assert_eq!(
        uids,
        [old.as_str().unwrap_or_default()],
        "no delete of the foreign object was sent"
    );
}
