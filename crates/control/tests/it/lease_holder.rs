//! From an accepted spec in Postgres to objects in a cluster and back, across restarts and
//! takeovers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use trueup_testkit::report_batch::RecordReports as _;

use jiff::Timestamp;
use trueup_model::key::Kind;
use trueup_model::order::Unit;
use trueup_model::org::PLATFORM;
use trueup_model::status::{Health, Reason};
use trueup_model::wake::{Wake, WakeState};
use trueup_store::door::RequestContext;
use trueup_store::{EventQuery, Lease, ServiceDetail, Turn, WakeFilter};

use crate::poison::Poisoned;
use crate::rig::{Rig, deleted};

#[tokio::test]
async fn declared_service_runs_and_its_deletion_is_verified() {
    let mut rig = Rig::new().await;
    rig.start("one");
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    rig.until_running("web").await;
    assert_eq!(rig.fake.objects(Kind::Deployment).len(), 1);

    let id = rig.delete("web").await;
    let detail = rig.until(&id, deleted).await;
    let receipt = detail.receipt.expect("a receipt should be there");
    assert_eq!(receipt.absent.len(), detail.resources.len(), "every recorded key is accounted for");
    assert!(rig.fake.objects(Kind::Deployment).is_empty());
    let free = rig.db.app.find_service(rig.db.org, "shop", "web").await.unwrap();
    assert!(free.is_none(), "the name is free again");
    rig.declare("web", "web:2").await;
    let second = rig.until_running("web").await;
    assert_ne!(second.row.service.id.to_string(), id);
}

#[tokio::test]
async fn converged_services_cause_no_writes_after_takeover() {
    let mut rig = Rig::new().await;
    let stop = rig.start("one");
    rig.declare_project().await;
    for service in ["a", "b", "c"] {
        rig.declare(service, "web:1").await;
    }
    for service in ["a", "b", "c"] {
        rig.until_running(service).await;
    }
    rig.until_wakes(0).await;
    let writes = rig.fake.journal().len();
    let projection = rig.get("a").await.row.projection;
    // A new lease holder gives its executor every order again: that must cause no writes.
    stop.cancel();
    rig.ended().await;
    rig.start("two");
    rig.fake.remove(&rig.fake_key("a", Kind::Service).await);
    rig.until_service_object("a").await;
    // All orders were given again and have converged.
    rig.until_wakes(0).await;
    assert_eq!(rig.fake.journal().len(), writes + 1, "one repair, and nothing else");
    assert_eq!(rig.get("b").await.row.projection, rig.get("c").await.row.projection);
    assert!(rig.get("a").await.row.projection >= projection);
}

#[tokio::test]
async fn crash_during_convergence_loses_and_duplicates_nothing() {
    let mut rig = Rig::new().await;
    rig.start("one");
    rig.declare_project().await;
    for number in 0..10 {
        rig.declare(&format!("web-{number}"), "web:1").await;
    }
    rig.until_running("web-0").await;
    rig.crash().await;
    rig.declare("late", "web:1").await;
    rig.start("one");
    for number in 0..10 {
        rig.until_running(&format!("web-{number}")).await;
    }
    rig.until_running("late").await;
    let duplicates: Vec<_> =
        rig.fake.counts().into_iter().filter(|(_, count)| count.creates > 1).collect();
    assert!(duplicates.is_empty(), "{duplicates:#?}");
    assert_eq!(rig.fake.objects(Kind::Deployment).len(), 11);
}

#[tokio::test]
async fn second_process_takes_over_when_the_first_shuts_down() {
    let mut rig = Rig::new().await;
    let first = rig.start("first");
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    rig.until_running("web").await;
    // It releases its lease. Otherwise the lease would expire ten seconds after its last renewal.
    let cancelled_at = rig.clock.now();
    first.cancel();
    rig.ended().await;
    let ended = rig.clock.now();
    let over = rig.lease_end().await;
    assert!(
        cancelled_at <= over && over <= ended,
        "the lease ended at {over}, and the process was cancelled at {cancelled_at}"
    );
    let second = rig.start("second");
    rig.declare("later", "web:1").await;
    rig.until_running("later").await;
    // A third process is on standby already.
    rig.start("third");
    second.cancel();
    rig.declare("last", "web:1").await;
    rig.until_running("last").await;
    // The first epoch is over: its reports are not recorded any more.
    let now = rig.clock.now();
    let stale = Lease { scope: rig.db.cluster, epoch: 1 };
    let refused = rig.db.worker.record_reports(stale, &[], now).await;
    assert!(matches!(refused, Err(trueup_store::Error::Fenced)), "{refused:?}");
}

#[tokio::test]
async fn unreachable_cluster_defers_without_failure_and_converges_later() {
    let mut rig = Rig::new().await;
    rig.fake.set_reachable(false);
    rig.start("one");
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    let events = |rig: &Rig| {
        let (app, org) = (rig.db.app.clone(), rig.db.org);
        async move { app.list_events(org, &all()).await.unwrap() }
    };
    let waited = rig.until("web", |detail| !detail.row.status.conditions.is_empty()).await;
    assert_eq!(waited.row.status.health, Health::Unknown);
    assert!(waited.row.status.evidence.is_none(), "no observation, so no evidence");
    rig.fake.set_reachable(true);
    rig.until_running("web").await;
    let failed =
        events(&rig).await.into_iter().filter(|event| event.kind == "ReconcileFailed").count();
    assert_eq!(failed, 0, "unreachable is not failed");
}

#[tokio::test]
async fn service_whose_passes_panic_does_not_stop_the_others() {
    let mut rig = Rig::new().await;
    let fixed = Arc::new(AtomicBool::new(false));
    let poisoned = Poisoned { inside: rig.fake.clone(), prefix: "bad-", fixed: Arc::clone(&fixed) };
    rig.start_on("one", Arc::new(poisoned));
    rig.declare_project().await;
    rig.declare("bad", "web:1").await;
    for service in ["a", "b"] {
        rig.declare(service, "web:1").await;
    }
    for service in ["a", "b"] {
        rig.until_running(service).await;
    }
    let seen = rig.until("bad", |detail| has(detail, Reason::Defect)).await;
    assert_eq!(seen.row.status.health, Health::Unknown);
    // After a few attempts its wake is dead, and an operator finds it.
    let dead = rig.until_dead().await;
    assert_eq!(dead.len(), 1, "{dead:?}");
    fixed.store(true, Ordering::SeqCst);
    let owner = rig.db.owner();
    let context = RequestContext::new(&owner, None);
    let now = rig.clock.now();
    rig.db.app.requeue_wake(PLATFORM, dead[0].unit, &context, now).await.unwrap();
    rig.signals.wake();
    rig.until_running("bad").await;
    rig.until_wakes(0).await;
}

#[tokio::test]
async fn events_are_sealed_in_order_without_gaps() {
    let mut rig = Rig::new().await;
    rig.start("one");
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    let detail = rig.until_running("web").await;
    let unit = Unit::Service(detail.row.service.id);
    let events = rig.until_events(unit, "ServicePhaseChanged").await;
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds.first(), Some(&"ServiceQueued"));
    let applied = kinds.iter().position(|kind| *kind == "ReconcileSucceeded");
    let created = kinds.iter().rposition(|kind| *kind == "ResourceCreated");
    assert!(created < applied, "{kinds:?}");
    let all = rig.db.app.list_events(rig.db.org, &all()).await.unwrap();
    let positions: Vec<i64> = all.iter().map(|event| event.position).collect();
    let expected: Vec<i64> = (1..).take(positions.len()).collect();
    assert_eq!(positions, expected);
}

/// A query with a limit above the number of events in a test.
fn all() -> EventQuery {
    EventQuery { limit: 1000, ..EventQuery::default() }
}

fn has(detail: &ServiceDetail, reason: Reason) -> bool {
    detail.row.status.conditions.iter().any(|condition| condition.reason == reason)
}

impl Rig {
    /// When the lease expires. The query uses a time before any expiry, so that it does not take
    /// the lease.
    async fn lease_end(&self) -> Timestamp {
        let at = Timestamp::UNIX_EPOCH;
        let asked = self.db.worker.acquire_lease(self.db.cluster, "other", None, at).await;
        match asked.expect("the database should answer") {
            Turn::Theirs { until } => until,
            Turn::Ours(lease) => unreachable!("the lease should have a holder: {lease:?}"),
        }
    }

    /// Waits until a wake is dead.
    async fn until_dead(&self) -> Vec<Wake> {
        let filter = WakeFilter { state: Some(WakeState::Dead), ..WakeFilter::default() };
        let found = tokio::time::timeout(crate::rig::LONG, async {
            loop {
                let dead = self.db.app.list_wakes(PLATFORM, filter, 10).await;
                let dead = dead.expect("wakes should be listed");
                if !dead.is_empty() {
                    return dead;
                }
                tokio::time::sleep(crate::rig::POLL).await;
            }
        });
        found.await.expect("its wake should be dead")
    }

    async fn fake_key(&self, service: &str, kind: Kind) -> trueup_model::key::ResourceKey {
        let detail = self.get(service).await;
        let found = detail.resources.into_iter().find(|object| object.key.kind == kind);
        found.expect("the key should be recorded").key
    }

    async fn until_service_object(&self, service: &str) {
        let key = self.fake_key(service, Kind::Service).await;
        let back = tokio::time::timeout(crate::rig::LONG, async {
            while !self
                .fake
                .objects(Kind::Service)
                .iter()
                .any(|object| object["metadata"]["name"] == key.name.as_str())
            {
                tokio::time::sleep(crate::rig::POLL).await;
            }
        });
        assert!(back.await.is_ok(), "{key} should be created again");
    }

    async fn until_events(&self, unit: Unit, last: &str) -> Vec<trueup_store::SealedEvent> {
        let found = tokio::time::timeout(crate::rig::LONG, async {
            loop {
                let events = self
                    .db
                    .app
                    .list_events(self.db.org, &EventQuery { of: Some(unit.into()), ..all() })
                    .await
                    .expect("events should be listed");
                if events
                    .last()
                    .is_some_and(|event| event.kind == last && event.body["phase"] == "running")
                {
                    return events;
                }
                tokio::time::sleep(crate::rig::POLL).await;
            }
        });
        found.await.expect("the events should be sealed")
    }
}
