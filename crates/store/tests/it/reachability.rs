//! Reachability of a cluster: each change is one event, and the last one can be read back.

use trueup_model::event::Source;
use trueup_model::org::PLATFORM;
use trueup_model::subject::Subject;
use trueup_store::{Error, EventQuery, Lease, ReachabilityChange};

use crate::stage::{Stage, at};

fn unreachable(since: i64) -> ReachabilityChange {
    let why = "connection refused".to_owned();
    ReachabilityChange::Unreachable { why, since: at(since) }
}

impl Stage {
    async fn reach(&self, lease: Lease, change: &ReachabilityChange, seconds: i64) {
        let recorded = self.db.worker.record_reachability(lease, change, at(seconds)).await;
        recorded.unwrap();
        let known = self.db.worker.unreachable_since(lease.scope).await.unwrap();
        assert_eq!(known, change.unreachable_since(), "{change:?}");
    }
}

#[tokio::test]
async fn each_change_of_reachability_is_recorded_once() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let known = stage.db.worker.unreachable_since(lease.scope).await.unwrap();
    assert_eq!(known, None, "nothing was recorded yet");
    let reachable = ReachabilityChange::Reachable { after_s: 90 };
    stage.reach(lease, &reachable, 10).await;
    stage.reach(lease, &unreachable(10), 40).await;
    // Again, as after a lost answer: the first one counts, unsealed and sealed.
    stage.reach(lease, &unreachable(10), 41).await;
    stage.seal().await;
    stage.reach(lease, &unreachable(10), 42).await;
    stage.reach(lease, &reachable, 100).await;
    stage.reach(lease, &reachable, 101).await;
    stage.reach(lease, &unreachable(200), 230).await;

    stage.seal().await;
    let of = Some(Subject::Cluster(stage.db.cluster));
    let events = stage.events(PLATFORM, EventQuery { of, ..EventQuery::default() }).await;
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["ClusterUnreachable", "ClusterReachable", "ClusterUnreachable"]);
    assert!(events.iter().all(|event| event.source == Source::K8sWatch.into_str()));
    assert_eq!(events[0].body["why"], "connection refused");
    assert_eq!(events[1].body["after_s"], 90);
}

#[tokio::test]
async fn former_lease_holder_records_no_reachability() {
    let stage = Stage::new().await;
    let former = stage.lease().await;
    stage.lease().await;
    let refused = stage.db.worker.record_reachability(former, &unreachable(1), at(40)).await;
    assert!(matches!(refused, Err(Error::Fenced)), "{refused:?}");
    assert_eq!(stage.db.worker.unreachable_since(former.scope).await.unwrap(), None);
}
