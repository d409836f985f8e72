//! Cluster faults by number, on the fake cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use trueup_cluster::CallError;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_model::spec::Spec;
use trueup_rules::render::names;
use trueup_testkit::fake_cluster::{FakeCluster, Verb, When, Write};

use crate::rig::{Rig, at_rest, converged, game, healthy, key, web, with_receipt};

fn refused(report: &Report) -> bool {
    matches!(report.outcome, Outcome::Refused { .. })
}

#[tokio::test(start_paused = true)]
async fn f27_deletions_during_a_watch_gap_are_noticed_for_every_kind() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(web(1)).await;
    let order = rig.service(1, web(1));
    let gone = [
        key(&order, Kind::Service, str::to_owned),
        key(&order, Kind::Secret, names::secret),
        key(&order, Kind::ConfigMap, names::config),
    ];
    fake.set_reachable(false);
    for key in &gone {
        fake.remove(key);
    }
    fake.compact();
    fake.set_reachable(true);
    for key in &gone {
        rig.get_until(key, |found| found.is_some()).await;
        assert_eq!(fake.counts()[key].creates, 2, "{key}");
    }
    rig.until(order.unit, healthy).await;
}

#[tokio::test(start_paused = true)]
async fn f30_repeated_conflicts_converge_and_keep_foreign_fields() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(web(1)).await;
    let order = rig.service(2, Spec { image: "example:2".to_owned(), ..web(1) });
    let deployment = key(&order, Kind::Deployment, str::to_owned);
    fake.edit(&deployment, |live| live["metadata"]["annotations"]["theirs"] = json!("kept"));
    for _ in 0..5 {
        fake.fail_next(Verb::Apply, CallError::Conflict("faster".to_owned()), When::Before);
    }
    rig.order_until(order, healthy).await;
    let live = rig.get(&deployment).await.expect("it should be there");
    assert_eq!(live["metadata"]["annotations"]["theirs"], "kept");
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "example:2");
}

#[tokio::test(start_paused = true)]
async fn f31_rate_limit_pauses_all_calls_for_as_long_as_requested() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.order_until(rig.project(), converged).await;
    let after = Duration::from_secs(60);
    fake.fail_next(Verb::Apply, CallError::Throttled { after }, When::Before);
    let writes = fake.journal().len();
    let slowed = |report: &Report| matches!(&report.outcome, Outcome::Waiting { on } if on.contains("rate limit"));
    rig.order_until(rig.service(1, web(1)), slowed).await;
    let limited_at = rig.clock.monotonic();
    assert_eq!(fake.journal().len(), writes + 1, "only the call that was rate limited");
    tokio::time::sleep(after - Duration::from_millis(1)).await;
    assert_eq!(fake.journal().len(), writes + 1, "nothing is sent during the pause");
    rig.until(rig.service(1, web(1)).unit, healthy).await;
    assert!(rig.clock.monotonic() - limited_at >= after, "the pause was kept");
}

#[tokio::test(start_paused = true)]
async fn f32_error_after_a_successful_create_makes_one_object() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.order_until(rig.project(), converged).await;
    for _ in 0..3 {
        fake.fail_next(Verb::Apply, CallError::Server("timeout".to_owned()), When::After);
    }
    rig.order_until(rig.service(1, game()), healthy).await;
    for (key, count) in fake.counts() {
        assert_eq!(count.creates, 1, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn f34_rejecting_webhook_is_named_and_retried_with_backoff() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.order_until(rig.project(), converged).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    fake.set_webhook(move |key, _| {
        if key.kind != Kind::Deployment {
            return Ok(());
        }
        counter.fetch_add(1, Ordering::SeqCst);
        Err(CallError::Refused("admission webhook \"policy\" denied the request: no".to_owned()))
    });
    let report = rig.order_until(rig.service(1, web(1)), refused).await;
    let Outcome::Refused { why } = &report.outcome else { unreachable!("as just waited for") };
    assert!(why.starts_with("Deployment/") && why.contains("denied the request"), "{why}");
    assert_eq!(calls.load(Ordering::SeqCst), 1, "once in a pass");
    fake.remove_webhook();
    rig.until(report.unit, healthy).await;
}

#[tokio::test(start_paused = true)]
async fn f34_mutating_webhook_is_named_and_causes_no_write_loop() {
    let fake = FakeCluster::new();
    fake.set_webhook(|key, object| {
        if key.kind == Kind::Deployment {
            object["spec"]["template"]["spec"]["containers"][0]["image"] =
                json!("mirror/example:1");
        }
        Ok(())
    });
    let mut rig = Rig::fake(&fake);
    rig.order_until(rig.project(), converged).await;
    let report = rig.order_until(rig.service(1, web(1)), refused).await;
    let Outcome::Refused { why } = &report.outcome else { unreachable!("as just waited for") };
    assert!(why.contains("spec.template.spec.containers.main.image"), "{why}");
    // Repeated orders still cause a single write.
    for _ in 0..3 {
        let passed = rig.executor.order(rig.service(1, web(1))).await.await;
        assert!(matches!(passed, Ok(Outcome::Refused { .. })), "{passed:?}");
    }
    let writes = fake.journal().iter().filter(|it| it.key.kind == Kind::Deployment).count();
    assert_eq!(writes, 1, "{:?}", fake.journal());
    // Without the webhook, the next generation converges.
    fake.remove_webhook();
    rig.order_until(rig.service(2, Spec { image: "example:2".to_owned(), ..web(1) }), healthy)
        .await;
}

#[tokio::test(start_paused = true)]
async fn f34_webhook_that_restores_pruned_fields_causes_no_write_loop() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(web(1)).await;
    fake.set_webhook(|key, object| {
        if key.kind == Kind::Service {
            object["spec"]["externalIPs"] = json!(["203.0.113.7"]);
        }
        Ok(())
    });
    let order = rig.service(1, web(1));
    let service = key(&order, Kind::Service, str::to_owned);
    fake.edit(&service, |live| live["spec"]["externalIPs"] = json!(["203.0.113.7"]));
    let report = rig.until(order.unit, refused).await;
    assert!(
        format!("{:?}", report.outcome).contains("put back during admission"),
        "{:?}",
        report.outcome
    );
    let writes = fake.journal().len();
    let passed = rig.executor.order(order.clone()).await.await;
    assert!(matches!(passed, Ok(Outcome::Refused { .. })), "{passed:?}");
    assert_eq!(fake.journal().len(), writes, "{:?}", fake.journal());
    // Without it, what others add again is pruned again.
    fake.remove_webhook();
    fake.edit(&service, |live| live["spec"]["externalIPs"] = json!(["203.0.113.8"]));
    rig.get_until(&service, |live| live.is_some_and(|live| live["spec"]["externalIPs"].is_null()))
        .await;
}

/// Another writer replaces our objects unseen by the watches, so our deletion is planned with old
/// uids. Kinds that hold data are read before they are deleted; the others are protected by the
/// precondition of the delete itself.
#[tokio::test(start_paused = true)]
async fn f36_replaced_object_survives_a_delete_of_the_old_uid() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(game()).await;
    let order = rig.service(1, game());
    let set = key(&order, Kind::StatefulSet, str::to_owned);
    let service = key(&order, Kind::Service, str::to_owned);
    for kind in [Kind::StatefulSet, Kind::Service] {
        fake.set_deaf(kind, true);
    }
    let mut theirs = Vec::new();
    for key in [&set, &service] {
        let mut spec = fake.find(key).expect("it should be there")["spec"].clone();
        spec["replicas"] = json!(0);
        fake.remove(key);
        fake.edit(key, |new| new["spec"] = spec);
        theirs.push(fake.find(key));
    }
    at_rest().await;
    let writes = fake.journal().len();
    let report = rig.order_until(rig.gone(2, game()), with_receipt).await;
    assert_eq!([fake.find(&set), fake.find(&service)], theirs[..], "{report:#?}");
    let sent: Vec<Write> = fake.journal().split_off(writes);
    let deletes = |key: &ResourceKey| {
        let of_it = sent.iter().filter(|it| it.verb == Verb::Delete && it.key == *key);
        of_it.map(|it| it.effective).collect::<Vec<bool>>()
    };
    assert_eq!(
        deletes(&set),
        Vec::<bool>::new(),
        "the live read found another uid, so nothing is sent"
    );
    assert_eq!(deletes(&service), [false], "the precondition should have failed one delete");
}

/// Every watch fails at once: only responses to our writes and occasional lists update the cache.
#[tokio::test(start_paused = true)]
async fn f37_without_any_watch_event_nothing_is_written_twice() {
    let fake = FakeCluster::new();
    fake.fail_every(Verb::Watch, CallError::Server("no watch".to_owned()));
    let mut rig = Rig::fake(&fake);
    rig.order_until(rig.project(), converged).await;
    let applied = |report: &Report| report.observation.as_ref().is_some_and(|seen| seen.applied);
    rig.order_until(rig.service(1, web(2)), applied).await;
    let journal = fake.journal();
    let keys: std::collections::BTreeSet<_> = journal.iter().map(|write| &write.key).collect();
    assert_eq!(journal.len(), keys.len(), "{journal:?}");
}

#[tokio::test(start_paused = true)]
async fn f38_unseen_changes_that_were_undone_cause_no_write() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(web(2)).await;
    let order = rig.service(1, web(2));
    let deployment = key(&order, Kind::Deployment, str::to_owned);
    let (before, writes) = (fake.snapshot(), fake.journal().len());
    let watches = fake.open_watches();
    fake.set_reachable(false);
    rig.holds(|| fake.open_watches() == 0).await;
    for replicas in [9, 0, 2] {
        fake.edit(&deployment, |live| live["spec"]["replicas"] = json!(replicas));
    }
    let theirs = key(&order, Kind::ConfigMap, |name| format!("{name}-theirs"));
    fake.edit(&theirs, |_| {});
    fake.remove(&theirs);
    // Only a list is left to show it.
    fake.compact();
    fake.set_reachable(true);
    rig.holds(|| fake.open_watches() == watches).await;
    let report = rig.until(order.unit, converged).await;
    assert_eq!(report.changes, []);
    let passed = rig.executor.order(order.clone()).await.await;
    assert_eq!(passed, Ok(Outcome::Converged));
    assert_eq!(fake.journal().len(), writes, "{:?}", fake.journal());
    assert_eq!(fake.snapshot(), before);
}

#[tokio::test(start_paused = true)]
async fn f41_only_the_rejected_object_is_named_and_a_rollback_recovers() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(web(1)).await;
    let mut bad = Spec { image: "example:2".to_owned(), ..web(1) };
    bad.ports[0].port = 6666;
    bad.variables.insert("GREETING".to_owned(), "hello again".to_owned());
    fake.set_webhook(|key, object| {
        if key.kind == Kind::Service && object["spec"]["ports"][0]["port"] == 6666 {
            return Err(CallError::Refused("port 6666 is not allowed here".to_owned()));
        }
        Ok(())
    });
    let order = rig.service(2, bad);
    let report = rig.order_until(order.clone(), refused).await;
    let service = key(&order, Kind::Service, str::to_owned);
    let why = format!("{service}: port 6666 is not allowed here");
    assert_eq!(report.outcome, Outcome::Refused { why });
    // The others of that round were written and reported.
    let config = key(&order, Kind::ConfigMap, names::config);
    assert!(
        report.changes.contains(&ObjectChange::Updated { key: config }),
        "{:?}",
        report.changes
    );
    let deployment = key(&order, Kind::Deployment, str::to_owned);
    let image = |live: &serde_json::Value| {
        live["spec"]["template"]["spec"]["containers"][0]["image"].clone()
    };
    let live = rig.get(&deployment).await.expect("it should be there");
    assert_eq!(image(&live), "example:1", "pods wait for what they need");
    rig.order_until(rig.service(3, web(1)), healthy).await;
    rig.order_until(rig.gone(4, web(1)), with_receipt).await;
}
