//! Leases: one holder at a time by database time, and a stale holder is fenced off.

use futures::future::join_all;
use jiff::SignedDuration;
use trueup_model::Clock as _;
use trueup_model::cluster::Freshness;
use trueup_store::{DbClock, Error, Lease, Turn};
use trueup_testkit::report_batch::RecordReports as _;

use crate::stage::{Stage, at, converged};

impl Stage {
    async fn acquire(&self, holder: &str, seconds: i64) -> Option<Lease> {
        let worker = &self.db.worker;
        let lease = worker.acquire_lease(self.db.cluster, holder, None, at(seconds)).await;
        lease.unwrap().ours()
    }
}

#[tokio::test]
async fn a_lease_is_refused_to_another_holder_until_it_expires() {
    let stage = Stage::new().await;
    let first = stage.acquire("one", 0).await.unwrap();
    for seconds in [0, 1, 9] {
        assert_eq!(stage.acquire("two", seconds).await, None, "{seconds}");
    }
    let second = stage.acquire("two", 10).await.unwrap();
    assert!(second.epoch > first.epoch);
    assert_eq!(stage.acquire("one", 11).await, None);
}

#[tokio::test]
async fn the_same_holder_reacquires_at_once_with_a_higher_epoch() {
    let stage = Stage::new().await;
    let first = stage.acquire("one", 0).await.unwrap();
    let second = stage.acquire("one", 0).await.unwrap();
    assert_eq!(second.epoch, first.epoch + 1);
    let renewed = stage.db.worker.renew_lease(first, at(1)).await;
    assert!(matches!(renewed, Err(Error::Fenced)));
    stage.db.worker.renew_lease(second, at(1)).await.unwrap();
}

#[tokio::test]
async fn renewing_extends_the_lease_by_its_ttl() {
    let stage = Stage::new().await;
    let lease = stage.acquire("one", 0).await.unwrap();
    stage.db.worker.renew_lease(lease, at(8)).await.unwrap();
    assert_eq!(stage.acquire("two", 17).await, None);
    assert!(stage.acquire("two", 18).await.is_some());
    let renewed = stage.db.worker.renew_lease(lease, at(18)).await;
    assert!(matches!(renewed, Err(Error::Fenced)));
}

#[tokio::test]
async fn a_released_lease_is_free_at_once() {
    let stage = Stage::new().await;
    let lease = stage.acquire("one", 0).await.unwrap();
    stage.db.worker.release_lease(lease, at(1)).await.unwrap();
    let next = stage.acquire("two", 1).await.unwrap();
    // A late second release does not take the lease from the next holder.
    stage.db.worker.release_lease(lease, at(2)).await.unwrap();
    assert_eq!(stage.acquire("three", 2).await, None);
    stage.db.worker.renew_lease(next, at(2)).await.unwrap();
}

#[tokio::test]
async fn f52_machines_with_wrong_clocks_agree_on_a_lease() {
    let stage = Stage::new().await;
    let right = DbClock::unanchored();
    right.anchor(&stage.db.app).await.unwrap();
    let worker = &stage.db.worker;
    let lease = worker.acquire_lease(stage.db.cluster, "one", None, right.now()).await.unwrap();
    assert!(lease.ours().is_some());
    for minutes in [-10, 10] {
        let machine = right.now() + SignedDuration::from_mins(minutes);
        let wrong = DbClock::starting_at(machine);
        assert!(wrong.now().duration_since(right.now()).abs() > SignedDuration::from_mins(9));
        wrong.anchor(&stage.db.app).await.unwrap();
        assert!(wrong.now().duration_since(right.now()).abs() < SignedDuration::from_mins(1));
        let turn = worker.acquire_lease(stage.db.cluster, "two", None, wrong.now()).await.unwrap();
        assert_eq!(turn.ours(), None, "{minutes} minutes");
        worker.renew_lease(lease.ours().unwrap(), right.now()).await.unwrap();
    }
}

#[tokio::test]
async fn f52_unrenewed_lease_counts_as_expired_after_the_clock_was_set_back() {
    let stage = Stage::new().await;
    let first = stage.acquire("one", 3_600).await.unwrap();
    // The database's clock is set back by an hour, and the holder does not renew its lease.
    let worker = &stage.db.worker;
    let try_acquire =
        |dead, seconds| worker.acquire_lease(stage.db.cluster, "two", dead, at(seconds));
    let turn = try_acquire(None, 0).await.unwrap();
    assert_eq!(turn, Turn::Theirs { until: at(3_610) });
    // The expiry changed: its holder is alive.
    worker.renew_lease(first, at(3)).await.unwrap();
    assert_eq!(try_acquire(Some(at(3_610)), 4).await.unwrap(), Turn::Theirs { until: at(13) });
    worker.renew_lease(first, at(3_600)).await.unwrap();
    let next = try_acquire(Some(at(3_610)), 5).await.unwrap().ours().unwrap();
    assert!(next.epoch > first.epoch);
    // The new lease expires by the new time.
    assert!(stage.acquire("three", 15).await.is_some());
}

#[tokio::test]
async fn of_concurrent_acquirers_one_gets_the_lease() {
    let stage = Stage::new().await;
    let names: Vec<String> = (0..8).map(|number| format!("holder-{number}")).collect();
    for round in 0..3 {
        let tries = names.iter().map(|name| stage.acquire(name, 100 * round));
        let got = join_all(tries).await.into_iter().flatten().count();
        assert_eq!(got, 1, "round {round}");
    }
}

#[tokio::test]
async fn each_cluster_has_its_own_lease() {
    let stage = Stage::new().await;
    let other = stage.db.setup.ensure_cluster("other", at(0)).await.unwrap();
    stage.acquire("one", 0).await.unwrap();
    let worker = &stage.db.worker;
    let lease = worker.acquire_lease(other, "two", None, at(0)).await.unwrap();
    assert_eq!(lease.ours().map(|lease| lease.epoch), Some(1));
}

#[tokio::test]
async fn a_stale_holder_records_no_reports() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let stale = stage.acquire("one", 0).await.unwrap();
    let next = stage.acquire("two", 10).await.unwrap();
    let before = stage.rows().await;
    let worker = &stage.db.worker;
    let refused = worker.record_reports(stale, &[converged(&row, 1)], at(11)).await;
    assert!(matches!(refused, Err(Error::Fenced)));
    assert_eq!(stage.grown(&before).await, []);
    assert_eq!(stage.find("web").await.unwrap().projection, 1);
    let settled = worker.record_reports(next, &[converged(&row, 1)], at(11)).await;
    assert_eq!(settled.unwrap(), 1);
}

#[tokio::test]
async fn a_stale_holder_cannot_record_freshness() {
    let stage = Stage::new().await;
    let stale = stage.acquire("one", 0).await.unwrap();
    let next = stage.acquire("two", 10).await.unwrap();
    let worker = &stage.db.worker;
    worker.record_watches(next, &Freshness::all_at(at(12))).await.unwrap();
    let refused = worker.record_watches(stale, &Freshness::all_at(at(5))).await;
    assert!(matches!(refused, Err(Error::Fenced)), "{refused:?}");
    let known = worker.freshness(stage.db.cluster).await.unwrap();
    assert_eq!(known.oldest(), Some(at(12)), "older freshness does not replace newer freshness");
}
