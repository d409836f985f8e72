//! Several processes on one database: they notify each other, and polling finds what a lost
//! notification or acknowledgement missed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trueup_control::Notifier;
use trueup_model::Clock;
use trueup_store::{DbClock, EventQuery, Lease, Notification, Signals, Worker};
use trueup_testkit::pg_proxy::{Mode, PgProxy};
use trueup_testkit::test_db::TestDb;

use crate::rig::{LONG, Rig};

/// One process with a notifier and nothing that polls.
struct Process {
    signals: Signals,
    tasks: tokio::task::JoinSet<()>,
}

impl Process {
    /// Starts the process; it listens when this returns.
    async fn start(name: &str, worker: Worker) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(DbClock::unanchored());
        let signals = Signals::default();
        let notifier = Notifier { worker, signals: signals.clone(), clock, name: name.to_owned() };
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(notifier.run());
        let process = Self { signals, tasks };
        // A new listener may have missed notifications, so it is signalled once.
        process.woken("at the start").await;
        process
    }

    async fn woken(&self, when: &str) {
        let woken = tokio::time::timeout(LONG, self.signals.woken()).await;
        assert!(woken.is_ok(), "it should have been woken {when}");
    }
}

#[tokio::test]
async fn commit_of_one_process_notifies_all_others() {
    let db = TestDb::new().await;
    let one = Process::start("one", db.worker.clone()).await;
    let two = Process::start("two", db.worker.clone()).await;
    let three = Process::start("three", db.worker.clone()).await;
    let (mut seals, mut freezes) = (two.signals.seals(), three.signals.freezes());
    seals.mark_unchanged();
    freezes.mark_unchanged();
    one.signals.wake();
    two.woken("by the first one").await;
    three.woken("by the first one").await;
    three.signals.sealed();
    tokio::time::timeout(LONG, seals.changed()).await.expect("it was sealed").unwrap();
    two.signals.freeze();
    tokio::time::timeout(LONG, freezes.changed()).await.expect("it was frozen").unwrap();
}

#[tokio::test]
async fn f22_reconnected_listener_is_signalled_once() {
    let db = TestDb::new().await;
    let proxy = PgProxy::start(&db.urls.worker).await;
    let behind = Worker::connect_within(&proxy.url(&db.urls.worker), LONG).unwrap();
    let one = Process::start("one", db.worker.clone()).await;
    let mut two = Process::start("two", behind).await;
    proxy.set(Mode::Cut);
    one.signals.wake();
    // This notification is certainly sent before the listener reconnects.
    db.worker.ring("one", Notification::Wake).await.unwrap();
    proxy.set(Mode::Pass);
    two.woken("once the connection was back").await;
    one.signals.wake();
    two.woken("as before").await;
    assert!(two.tasks.try_join_next().is_none(), "the notifier continues");
}

#[tokio::test]
async fn f22_without_notifications_polling_finds_the_work() {
    let mut rig = Rig::new().await;
    rig.start("one");
    // Changes come from another process whose notifications are lost.
    rig.signals = Signals::default();
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    rig.until_running("web").await;
    rig.until_wakes(0).await;
}

#[tokio::test]
async fn f15_repeated_unacknowledged_commits_lose_and_duplicate_nothing() {
    let mut rig = Rig::new().await;
    let proxy = PgProxy::start(&rig.db.urls.worker).await;
    rig.worker = Worker::connect_within(&proxy.url(&rig.db.urls.worker), LONG).unwrap();
    rig.start("one");
    rig.declare_project().await;
    let names: Vec<String> = (0..16).map(|number| format!("web-{number}")).collect();
    for name in &names {
        let lost = proxy.lost_commits();
        proxy.set(Mode::LoseCommit);
        rig.declare(name, "web:1").await;
        // The next commit of any loop succeeds without an acknowledgement.
        let losing = tokio::time::timeout(LONG, async {
            while proxy.lost_commits() == lost {
                tokio::time::sleep(crate::rig::POLL).await;
            }
        });
        losing.await.expect("an acknowledgement should be lost");
    }
    for name in &names {
        rig.until_running(name).await;
    }
    rig.until_wakes(0).await;
    // A later change to a service whose wake was lost once converges as usual.
    for name in &names {
        rig.declare(name, "web:2").await;
    }
    for name in &names {
        rig.until_running(name).await;
    }
    rig.until_wakes(0).await;
    assert!(proxy.lost_commits() >= names.len());
    let duplicates: Vec<_> =
        rig.fake.counts().into_iter().filter(|(_, count)| count.creates > 1).collect();
    assert!(duplicates.is_empty(), "{duplicates:#?}");
    let created = created(&rig).await;
    let duplicates: Vec<_> = created.iter().filter(|(_, count)| **count > 1).collect();
    assert!(created.len() > names.len() && duplicates.is_empty(), "{duplicates:#?}");
}

#[tokio::test]
async fn f17_slow_database_loses_neither_lease_nor_change() {
    let mut rig = Rig::in_real_time().await;
    let proxy = PgProxy::start(&rig.db.urls.worker).await;
    rig.worker = Worker::connect_within(&proxy.url(&rig.db.urls.worker), LONG).unwrap();
    rig.start("one");
    rig.declare_project().await;
    rig.declare("before", "web:1").await;
    rig.until_running("before").await;
    proxy.set(Mode::Delay(Duration::from_millis(200)));
    for name in ["a", "b", "c"] {
        rig.declare(name, "web:1").await;
    }
    for name in ["a", "b", "c"] {
        rig.until_running(name).await;
    }
    proxy.set(Mode::Pass);
    rig.until_wakes(0).await;
    let next =
        rig.db.worker.acquire_lease(rig.db.cluster, "one", None, rig.clock.now()).await.unwrap();
    assert_eq!(
        next.ours().map(|lease| lease.epoch),
        Some(2),
        "it kept the same lease all the time"
    );
}

#[tokio::test]
async fn f50_standby_reports_the_age_of_waiting_work() {
    let mut rig = Rig::new().await;
    // A holder renews the lease and does nothing: the lease metric would not show it.
    let (worker, cluster, clock) = (rig.db.worker.clone(), rig.db.cluster, Arc::clone(&rig.clock));
    let lease = worker.acquire_lease(cluster, "idle", None, clock.now()).await.unwrap();
    let lease = lease.ours().unwrap();
    let mut idle_holder = tokio::task::JoinSet::new();
    idle_holder.spawn(async move {
        loop {
            worker.renew_lease(lease, clock.now()).await.unwrap();
            clock.sleep(Lease::RENEW_EVERY).await;
        }
    });
    rig.declare_project().await;
    rig.start("one");
    let aged = async {
        let age = |text: &str| {
            let line = text
                .lines()
                .find(|it| it.starts_with(r#"trueup_wake_age_seconds{lane="user_change"#));
            line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        };
        while age(&rig.metrics_text()).is_none_or(|age| age < 1.0) {
            tokio::time::sleep(crate::rig::POLL).await;
        }
    };
    let reported = tokio::time::timeout(LONG, aged).await;
    assert!(
        reported.is_ok() && rig.metrics_text().contains("trueup_lease_held 0"),
        "{}",
        rig.metrics_text()
    );
    assert!(idle_holder.try_join_next().is_none(), "it should hold the lease to the end");
}

#[tokio::test]
async fn f49_holder_with_silent_database_is_replaced_and_stands_by() {
    let mut rig = Rig::new().await;
    let proxy = PgProxy::start(&rig.db.urls.worker).await;
    rig.worker = Worker::connect_within(&proxy.url(&rig.db.urls.worker), LONG).unwrap();
    rig.start("one");
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    rig.until_running("web").await;
    proxy.set(Mode::Blackhole);
    rig.worker = rig.db.worker.clone();
    let second = rig.start("two");
    rig.declare("web", "web:2").await;
    rig.until_running("web").await;
    // The calls of the first process arrive only now: Postgres rejects them.
    proxy.set(Mode::Pass);
    rig.declare("web", "web:3").await;
    rig.until_running("web").await;
    second.cancel();
    rig.declare("web", "web:4").await;
    rig.until_running("web").await;
    rig.until_wakes(0).await;
    let duplicates: Vec<_> =
        rig.fake.counts().into_iter().filter(|(_, count)| count.creates > 1).collect();
    assert!(duplicates.is_empty(), "{duplicates:#?}");
}

/// How often each object has a `ResourceCreated` event.
async fn created(rig: &Rig) -> BTreeMap<String, usize> {
    rig.db.seal().await;
    let query = EventQuery {
        kind: Some("ResourceCreated".to_owned()),
        limit: 10_000,
        ..EventQuery::default()
    };
    let mut counts = BTreeMap::new();
    let events = rig.db.app.list_events(rig.db.org, &query).await;
    for event in events.expect("events should be listed") {
        *counts.entry(format!("{:?} {}", event.subject, event.body)).or_default() += 1;
    }
    counts
}
