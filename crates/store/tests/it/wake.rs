//! Wakes: none is lost by a crash or a concurrent request, and none is processed twice.

use std::collections::BTreeSet;
use std::slice;
use std::time::Duration;

use futures::future::join_all;
use trueup_model::order::Unit;
use trueup_model::wake::Claimed;
use trueup_store::{Error, Lease};

use crate::stage::{Stage, at, unit};

impl Stage {
    async fn claim(&self, lease: Lease, limit: i64, seconds: i64) -> Vec<Claimed> {
        let orders = self.db.worker.claim_orders(lease, limit, at(seconds)).await;
        orders.unwrap().into_iter().map(|(wake, _)| wake).collect()
    }

    /// Waiting and running wakes.
    async fn wakes(&self) -> (i64, i64) {
        self.db.count_wakes().await
    }

    async fn finish(&self, wake: &Claimed, seconds: i64) {
        self.db.worker.finish_wakes(slice::from_ref(wake), at(seconds)).await.unwrap();
    }

    /// Claims the only service wake; finishes the project's.
    async fn claim_service(&self, lease: Lease, seconds: i64) -> Claimed {
        let claimed = self.claim(lease, 10, seconds).await;
        let mut services = Vec::new();
        for wake in claimed {
            match wake.unit {
                Unit::Project(_) => self.finish(&wake, seconds).await,
                Unit::Service(_) => services.push(wake),
            }
        }
        assert_eq!(services.len(), 1);
        services.remove(0)
    }
}

#[tokio::test]
async fn a_finished_wake_is_gone() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    stage.declare("web", "nginx:1").await;
    let wake = stage.claim_service(lease, 1).await;
    assert_eq!(stage.wakes().await, (0, 1));
    stage.finish(&wake, 2).await;
    assert_eq!(stage.wakes().await, (0, 0));
}

#[tokio::test]
async fn a_wake_is_not_claimed_before_it_is_due() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    assert_eq!(stage.claim(lease, 10, -1).await, []);
    assert_eq!(stage.claim(lease, 10, 0).await.len(), 1);
}

#[tokio::test]
async fn a_wake_requested_while_running_survives_finishing() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    stage.declare("web", "nginx:1").await;
    let first = stage.claim_service(lease, 1).await;
    stage.declare("web", "nginx:2").await;
    // It is still running: it cannot be claimed again.
    assert_eq!(stage.claim(lease, 10, 1).await, []);
    stage.finish(&first, 2).await;
    let second = stage.claim(lease, 10, 2).await;
    assert_eq!(second.len(), 1);
    assert_eq!(second[0].seq, first.seq + 1);
    stage.finish(&second[0], 3).await;
    assert_eq!(stage.wakes().await, (0, 0));
}

#[tokio::test]
async fn a_retry_waits_is_counted_and_keeps_its_reason() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    stage.declare("web", "nginx:1").await;
    let mut wake = stage.claim_service(lease, 1).await;
    let worker = &stage.db.worker;
    for tries in 1..=3 {
        let after = Duration::from_secs(30);
        let now = at(100 * i64::from(tries));
        worker.retry_wake(&wake, after, "it broke", now).await.unwrap();
        assert_eq!(stage.claim(lease, 10, 100 * i64::from(tries) + 29).await, []);
        wake = stage.claim_service(lease, 100 * i64::from(tries) + 30).await;
        assert_eq!(wake.attempts, tries);
        let why: String = stage.one("select last_error from wakes").await;
        assert_eq!(why, "it broke");
    }
}

#[tokio::test]
async fn a_new_request_does_not_wait_for_the_retry_of_an_old_one() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    stage.declare("web", "nginx:1").await;
    let wake = stage.claim_service(lease, 1).await;
    let hour = Duration::from_secs(3600);
    stage.db.worker.retry_wake(&wake, hour, "it broke", at(1)).await.unwrap();
    stage.declare("web", "nginx:2").await;
    let next = stage.claim_service(lease, 1).await;
    assert_eq!((next.attempts, next.seq), (0, wake.seq + 1));
}

#[tokio::test]
async fn a_dead_wake_is_revived_by_a_request() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    stage.declare("web", "nginx:1").await;
    let kill = "update wakes set state = 'dead', died_at = now()";
    sqlx::raw_sql(kill).execute(&stage.owner).await.unwrap();
    assert_eq!(stage.claim(lease, 10, 9).await, []);
    let row = stage.declare("web", "nginx:2").await.row;
    let claimed = stage.claim(lease, 10, 9).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].unit, unit(&row));
}

#[tokio::test]
async fn claims_of_a_crashed_holder_are_requeued_for_the_next() {
    let stage = Stage::new().await;
    let crashed = stage.lease().await;
    stage.declare("web", "nginx:1").await;
    let lost = stage.claim(crashed, 10, 1).await;
    assert_eq!(lost.len(), 2);
    assert_eq!(stage.wakes().await, (0, 2));
    let worker = &stage.db.worker;
    let next = worker.acquire_lease(stage.db.cluster, "two", None, at(11)).await;
    let next = next.unwrap().ours().unwrap();
    let units: BTreeSet<Unit> = lost.iter().map(|wake| wake.unit).collect();
    let found = stage.claim(next, 10, 11).await;
    assert_eq!(found.iter().map(|wake| wake.unit).collect::<BTreeSet<_>>(), units);
}

#[tokio::test]
async fn a_stale_holder_finishes_no_wake_of_the_next() {
    let stage = Stage::new().await;
    let paused = stage.lease().await;
    stage.declare("web", "nginx:1").await;
    let old = stage.claim_service(paused, 1).await;
    let worker = &stage.db.worker;
    let next = worker.acquire_lease(stage.db.cluster, "two", None, at(11)).await;
    let next = next.unwrap().ours().unwrap();

    // While it waits for the next holder…
    stage.finish(&old, 11).await;
    assert_eq!(stage.wakes().await, (1, 0));
    let new = stage.claim_service(next, 11).await;
    // …and while the next holder works on it.
    stage.finish(&old, 12).await;
    worker.retry_wake(&old, Duration::ZERO, "late", at(12)).await.unwrap();
    assert_eq!(stage.wakes().await, (0, 1));
    stage.finish(&new, 13).await;
    assert_eq!(stage.wakes().await, (0, 0));
}

#[tokio::test]
async fn a_new_holder_wakes_every_unit_once() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    stage.declare("web", "nginx:1").await;
    let wake = stage.claim_service(lease, 1).await;
    stage.finish(&wake, 1).await;
    assert_eq!(stage.wakes().await, (0, 0));
    let worker = &stage.db.worker;
    assert_eq!(worker.wake_all(stage.db.cluster, at(2)).await.unwrap(), 2);
    assert_eq!(worker.wake_all(stage.db.cluster, at(2)).await.unwrap(), 0);
    assert_eq!(stage.wakes().await, (2, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_claimers_never_get_the_same_wake() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let names: Vec<String> = (0..40).map(|number| format!("web-{number}")).collect();
    for name in &names {
        stage.declare(name, "nginx:1").await;
    }
    let claimers = (0..8).map(|_| async {
        let mut mine = Vec::new();
        loop {
            let batch = stage.claim(lease, 3, 1).await;
            if batch.is_empty() {
                return mine;
            }
            mine.extend(batch.into_iter().map(|wake| wake.unit));
        }
    });
    // A claimer may find nothing while others hold locked rows, so the rest is claimed here.
    let mut all = join_all(claimers).await.concat();
    all.extend(stage.claim(lease, 100, 1).await.into_iter().map(|wake| wake.unit));
    let distinct: BTreeSet<Unit> = all.iter().copied().collect();
    assert_eq!((all.len(), distinct.len()), (41, 41));
}

#[tokio::test]
async fn stale_claims_are_requeued() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    stage.declare("web", "nginx:1").await;
    let claimed = stage.claim(lease, 10, 1).await;
    assert_eq!(claimed.len(), 2);
    let worker = &stage.db.worker;
    let all: BTreeSet<Unit> = claimed.iter().map(|wake| wake.unit).collect();
    assert_eq!(worker.requeue_lost(lease, &all).await.unwrap(), 0);
    let lost = claimed.iter().find(|wake| matches!(wake.unit, Unit::Service(_))).unwrap();
    let known: BTreeSet<Unit> = all.into_iter().filter(|unit| *unit != lost.unit).collect();
    assert_eq!(worker.requeue_lost(lease, &known).await.unwrap(), 1);
    assert_eq!(stage.wakes().await, (1, 1));
    // A late finish of a stale claim does not finish the next one.
    let again = stage.claim(lease, 10, 2).await;
    assert_eq!(again.iter().map(|wake| wake.unit).collect::<Vec<_>>(), [lost.unit]);
    stage.finish(lost, 3).await;
    assert_eq!(stage.wakes().await, (0, 2));
    let stale = Lease { epoch: lease.epoch - 1, ..lease };
    let refused = worker.requeue_lost(stale, &BTreeSet::new()).await;
    assert!(matches!(refused, Err(Error::Fenced)), "{refused:?}");
}
