//! A change of the cluster's reachability is recorded once, also if the lease holder changes.

use std::time::Duration;

use trueup_model::org::PLATFORM;
use trueup_model::subject::Subject;
use trueup_store::{EventQuery, SealedEvent};

use crate::rig::{LONG, POLL, Rig};

impl Rig {
    /// The sealed events about the cluster's reachability.
    async fn reachability(&self) -> Vec<SealedEvent> {
        let of = Some(Subject::Cluster(self.db.cluster));
        let query = EventQuery { of, limit: 100, ..EventQuery::default() };
        let events = self.db.app.list_events(PLATFORM, &query).await;
        events.expect("events should be listed")
    }

    /// Waits until this many of them are sealed; returns them.
    async fn until_reachability(&self, count: usize) -> Vec<SealedEvent> {
        let found = tokio::time::timeout(LONG, async {
            loop {
                let events = self.reachability().await;
                if events.len() >= count {
                    return events;
                }
                tokio::time::sleep(POLL).await;
            }
        });
        found.await.expect("the change should be recorded")
    }

    /// Waits until the clock of the loops has advanced by this much.
    async fn until_passed(&self, time: Duration) {
        let end = self.clock.monotonic() + time;
        let passed = tokio::time::timeout(LONG, async {
            while self.clock.monotonic() < end {
                tokio::time::sleep(POLL).await;
            }
        });
        passed.await.expect("the clock should advance");
    }
}

#[tokio::test]
async fn unreachable_and_reachable_are_recorded_once_also_across_a_restart() {
    let mut rig = Rig::new().await;
    let first = rig.start("one");
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    rig.until_running("web").await;
    // An idle, reachable cluster is not silent.
    rig.until_passed(Duration::from_secs(60)).await;
    assert!(rig.reachability().await.is_empty(), "{:?}", rig.reachability().await);

    rig.fake.set_reachable(false);
    let events = rig.until_reachability(1).await;
    let lost = &events[0];
    assert_eq!((lost.kind.as_str(), lost.source.as_str()), ("ClusterUnreachable", "k8s_watch"));
    assert!(lost.body["why"].as_str().is_some_and(|why| why.contains("unreachable")), "{lost:?}");
    let since = lost.body["since"].as_str().and_then(|since| since.parse().ok());
    let silent_for = lost.at.duration_since(since.expect("it should be a time"));
    assert!(silent_for.as_secs() >= 29, "it was recorded after {silent_for:?}");

    // A restarted holder and another one know that it was recorded.
    first.cancel();
    rig.ended().await;
    let second = rig.start("one");
    rig.until_passed(Duration::from_secs(45)).await;
    second.cancel();
    rig.ended().await;
    rig.start("two");
    rig.until_passed(Duration::from_secs(45)).await;
    assert_eq!(rig.reachability().await.len(), 1, "{:?}", rig.reachability().await);

    rig.fake.set_reachable(true);
    let events = rig.until_reachability(2).await;
    assert_eq!(events[1].kind, "ClusterReachable");
    let after = events[1].body["after_s"].as_i64().expect("it should be a number");
    assert!(after >= 30 + 90, "{after}");
    rig.until_passed(Duration::from_secs(40)).await;
    assert_eq!(rig.reachability().await.len(), 2, "{:?}", rig.reachability().await);
}
