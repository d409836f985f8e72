//! Several processes on one database: they hear of each other, and what is not heard or not answered is
//! found by looking again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trueup_control::Notifier;
use trueup_model::Clock;
use trueup_store::{DbClock, EventQuery, Lease, Notification, Signals, Worker};
use trueup_testkit::pg_proxy::{Mode, PgProxy};
use trueup_testkit::test_db::TestDb;

use crate::rig::{LONG, Rig};

/// One process with a bell, and nothing in it that polls.
struct Process {
    signals: Signals,
    tasks: tokio::task::JoinSet<()>,
}

impl Process {
    /// It listens when this returns.
    async fn start(name: &str, worker: Worker) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(DbClock::unanchored());
        let signals = Signals::default();
        let bell = Notifier { worker, signals: signals.clone(), clock, name: name.to_owned() };
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(bell.run());
        let process = Self { signals, tasks };
        // Whoever begins to listen may have missed something, and is nudged.
        process.woken("at the start").await;
        process
    }

    async fn woken(&self, when: &str) {
        let heard = tokio::time::timeout(LONG, self.signals.woken()).await;
        assert!(heard.is_ok(), "it should have been woken {when}");
    }
}

#[tokio::test]
async fn what_one_process_commits_every_other_one_hears() {
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
async fn f22_whoever_was_cut_off_is_nudged_when_listening_again() {
    let db = TestDb::new().await;
    let proxy = PgProxy::start(&db.urls.worker).await;
    let behind = Worker::connect_within(&proxy.url(&db.urls.worker), LONG).unwrap();
    let one = Process::start("one", db.worker.clone()).await;
    let mut two = Process::start("two", behind).await;
    proxy.set(Mode::Cut);
    one.signals.wake();
    // It is rung for sure before anybody listens again.
    db.worker.ring("one", Notification::Wake).await.unwrap();
    proxy.set(Mode::Pass);
    two.woken("once the connection was back").await;
    one.signals.wake();
    two.woken("as before").await;
    assert!(two.tasks.try_join_next().is_none(), "it goes on");
}

#[tokio::test]
async fn f22_without_any_bell_polling_finds_the_work() {
    let mut rig = Rig::new().await;
    rig.start("one");
    // The door of another process, which nobody hears.
    rig.signals = Signals::default();
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    rig.until_running("web").await;
    rig.until_wakes(0).await;
}

#[tokio::test]
async fn f15_answers_that_are_lost_again_and_again_lose_and_double_nothing() {
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
        // Whichever loop it is that commits next: it was done, and nobody is told.
        let losing = tokio::time::timeout(LONG, async {
            while proxy.lost_commits() == lost {
                tokio::time::sleep(crate::rig::LOOK).await;
            }
        });
        losing.await.expect("a reply should be lost");
    }
    for name in &names {
        rig.until_running(name).await;
    }
    rig.until_wakes(0).await;
    // What is asked of a service whose wake was once forgotten is done like anything else.
    for name in &names {
        rig.declare(name, "web:2").await;
    }
    for name in &names {
        rig.until_running(name).await;
    }
    rig.until_wakes(0).await;
    assert!(proxy.lost_commits() >= names.len());
    let doubled: Vec<_> =
        rig.fake.counts().into_iter().filter(|(_, count)| count.creates > 1).collect();
    assert!(doubled.is_empty(), "{doubled:#?}");
    let told = created(&rig).await;
    let doubled: Vec<_> = told.iter().filter(|(_, count)| **count > 1).collect();
    assert!(told.len() > names.len() && doubled.is_empty(), "{doubled:#?}");
}

#[tokio::test]
async fn f17_a_slow_database_slows_and_neither_loses_a_lease_nor_a_change() {
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
    assert_eq!(next.ours().map(|lease| lease.epoch), Some(2), "it held its one lease all the time");
}

#[tokio::test]
async fn f50_work_that_waits_while_nobody_works_is_told_by_who_stands_by() {
    let mut rig = Rig::new().await;
    // Somebody renews the lease and does nothing: no count of holders would show it.
    let (worker, cluster, clock) = (rig.db.worker.clone(), rig.db.cluster, Arc::clone(&rig.clock));
    let lease = worker.acquire_lease(cluster, "idler", None, clock.now()).await.unwrap();
    let lease = lease.ours().unwrap();
    let mut idler = tokio::task::JoinSet::new();
    idler.spawn(async move {
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
        while age(&rig.told()).is_none_or(|age| age < 1.0) {
            tokio::time::sleep(crate::rig::LOOK).await;
        }
    };
    let told = tokio::time::timeout(LONG, aged).await;
    assert!(told.is_ok() && rig.told().contains("trueup_lease_held 0"), "{}", rig.told());
    assert!(idler.try_join_next().is_none(), "it held the lease to the end");
}

#[tokio::test]
async fn f49_a_holder_whose_database_falls_silent_is_replaced_and_stands_by_afterwards() {
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
    // Whatever the first one asked is carried out only now: Postgres refuses it.
    proxy.set(Mode::Pass);
    rig.declare("web", "web:3").await;
    rig.until_running("web").await;
    second.cancel();
    rig.declare("web", "web:4").await;
    rig.until_running("web").await;
    rig.until_wakes(0).await;
    let doubled: Vec<_> =
        rig.fake.counts().into_iter().filter(|(_, count)| count.creates > 1).collect();
    assert!(doubled.is_empty(), "{doubled:#?}");
}

/// How often each object was said to be made.
async fn created(rig: &Rig) -> BTreeMap<String, usize> {
    rig.db.seal().await;
    let query = EventQuery {
        kind: Some("ResourceCreated".to_owned()),
        limit: 10_000,
        ..EventQuery::default()
    };
    let mut told = BTreeMap::new();
    let events = rig.db.app.list_events(rig.db.org, &query).await;
    for event in events.expect("events should be listed") {
        *told.entry(format!("{:?} {}", event.unit, event.body)).or_default() += 1;
    }
    told
}
