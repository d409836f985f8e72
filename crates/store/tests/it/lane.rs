//! Lanes and fair queueing: a backlog does not delay others, and a defect affects only its own
//! unit.

use std::collections::BTreeMap;

use trueup_model::OrgId;
use trueup_model::order::Unit;
use trueup_model::wake::{Claimed, Lane, POISON_TRIES, WakeState};
use trueup_store::{Lease, WakeFilter};

use crate::stage::{Stage, at, unit};

impl Stage {
    /// Adds wakes of services that do not exist, in this lane, due at that second.
    async fn backlog(&self, org: OrgId, lane: Lane, count: u32, seconds: i64) {
        let (org, cluster, lane) = (org.uuid(), self.db.cluster.uuid(), lane.into_str());
        let due = at(seconds);
        let statement = format!(
            "insert into wakes (subject_kind, subject_id, org_id, scope_kind, scope_id, lane, due_at)
             select 'service', gen_random_uuid(), '{org}', 'cluster', '{cluster}', '{lane}',
                    '{due}'::timestamptz + g * interval '1 microsecond'
             from generate_series(1, {count}) g"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&self.owner).await.unwrap();
    }

    /// The number of wakes per lane and org that one batch claims.
    async fn batch(
        &self,
        lease: Lease,
        limit: i64,
        seconds: i64,
    ) -> BTreeMap<(Lane, OrgId), usize> {
        // Wakes of units that do not exist are dropped, so the claim shows in the counts.
        let before = self.waiting().await;
        self.db.worker.claim_orders(lease, limit, at(seconds)).await.unwrap();
        let after = self.waiting().await;
        before
            .into_iter()
            .map(|(key, count)| (key, count - after.get(&key).copied().unwrap_or(0)))
            .filter(|(_, claimed)| *claimed > 0)
            .collect()
    }

    async fn waiting(&self) -> BTreeMap<(Lane, OrgId), usize> {
        let rows: Vec<(String, uuid::Uuid, i64)> = sqlx::query_as(
            "select lane, org_id, count(*) from wakes where state = 'queued' group by 1, 2",
        )
        .fetch_all(&self.owner)
        .await
        .unwrap();
        let lane = |text: &str| Lane::ALL.into_iter().find(|lane| lane.into_str() == text).unwrap();
        rows.into_iter()
            .map(|(text, org, count)| {
                ((lane(&text), OrgId::from_uuid(org)), usize::try_from(count).unwrap())
            })
            .collect()
    }

    async fn org(&self, name: &str) -> OrgId {
        self.db.setup.ensure_org(name, at(0)).await.unwrap()
    }

    async fn drain(&self, lease: Lease) {
        while !self.db.worker.claim_orders(lease, 100, at(9)).await.unwrap().is_empty() {}
        sqlx::raw_sql("delete from wakes").execute(&self.owner).await.unwrap();
    }

    async fn dead(&self) -> Vec<trueup_model::wake::Wake> {
        let filter = WakeFilter { state: Some(WakeState::Dead), ..WakeFilter::default() };
        self.db.app.list_wakes(trueup_model::org::PLATFORM, filter, 100).await.unwrap()
    }
}

/// F21, scaled down: a backlog in one lane takes its share and no more.
#[tokio::test]
async fn a_lane_with_a_backlog_leaves_the_others_their_share() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    stage.drain(lease).await;
    let org = stage.db.org;
    for lane in Lane::ALL {
        stage.backlog(org, lane, 1000, 1).await;
    }
    let claimed = stage.batch(lease, 64, 2).await;
    let expected = [
        ((Lane::UserChange, org), 32),
        ((Lane::Delete, org), 16),
        ((Lane::Repair, org), 12),
        ((Lane::Sweep, org), 4),
    ];
    assert_eq!(claimed, BTreeMap::from(expected));
    // Claims of one wake at a time are shared in the same way.
    let mut one_by_one: BTreeMap<Lane, usize> = BTreeMap::new();
    for _round in 0..16 {
        for ((lane, _), count) in stage.batch(lease, 1, 2).await {
            *one_by_one.entry(lane).or_default() += count;
        }
    }
    assert_eq!(one_by_one[&Lane::Sweep], 1, "{one_by_one:?}");
    assert_eq!(one_by_one[&Lane::UserChange], 8, "{one_by_one:?}");
}

#[tokio::test]
async fn an_org_with_ten_thousand_wakes_does_not_delay_another_org() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    stage.drain(lease).await;
    let (busy, quiet) = (stage.db.org, stage.org("quiet").await);
    stage.backlog(busy, Lane::UserChange, 10_000, 1).await;
    stage.backlog(quiet, Lane::UserChange, 1, 5).await;
    let claimed = stage.batch(lease, 64, 9).await;
    assert_eq!(claimed.get(&(Lane::UserChange, quiet)), Some(&1), "in the first batch");
    assert_eq!(claimed.get(&(Lane::UserChange, busy)), Some(&32));
}

#[tokio::test]
async fn more_orgs_than_slots_are_claimed_in_turn() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    stage.drain(lease).await;
    for number in 0..30 {
        let org = stage.org(&format!("org-{number}")).await;
        stage.backlog(org, Lane::Repair, 50, 1).await;
    }
    let mut claimed: BTreeMap<OrgId, usize> = BTreeMap::new();
    for _batch in 0..3 {
        for ((_, org), count) in stage.batch(lease, 10, 2).await {
            *claimed.entry(org).or_default() += count;
        }
    }
    assert_eq!((claimed.len(), claimed.values().copied().max()), (30, Some(1)), "{claimed:?}");
}

/// A claim reads as many index entries as it claims, however many wakes wait.
#[tokio::test]
async fn a_claim_among_a_hundred_thousand_wakes_uses_the_index() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    stage.drain(lease).await;
    for number in 0..20 {
        let org = stage.org(&format!("org-{number}")).await;
        stage.backlog(org, Lane::Repair, 5000, 1).await;
    }
    sqlx::raw_sql("analyze wakes").execute(&stage.owner).await.unwrap();
    let scans = "select idx_scan from pg_stat_user_tables where relname = 'wakes'";
    let scanned = "select seq_tup_read from pg_stat_user_tables where relname = 'wakes'";
    let (scans_before, before): (i64, i64) = (stage.one(scans).await, stage.one(scanned).await);
    let mut batches = 0_i64;
    // Postgres updates a session's counters after a transaction, at most once a second.
    let counted = tokio::time::timeout(std::time::Duration::from_secs(120), async {
        while stage.one::<i64>(scans).await < scans_before + 20 {
            stage.db.worker.claim_orders(lease, 64, at(9)).await.unwrap();
            batches += 1;
        }
    });
    counted.await.expect("claims should be counted");
    let read = stage.one::<i64>(scanned).await - before;
    assert!(read < 50_000, "{batches} claims read {read} rows by scanning the table");
    assert_eq!(stage.one::<i64>("select count(*) from wakes").await, 100_000 - batches * 64);
}

/// F09.
#[tokio::test]
async fn a_corrupt_row_blocks_no_other_unit_and_its_wake_dies() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let bad = stage.declare("bad", "nginx:1").await.row;
    let good = stage.declare("good", "nginx:1").await.row;
    let break_it = format!(
        "update services set spec = '{{\"workload\": \"of another age\"}}' where id = '{}'",
        bad.service.id.uuid()
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(break_it)).execute(&stage.owner).await.unwrap();

    let mut units: Vec<Unit> = Vec::new();
    for round in 0..POISON_TRIES {
        let now = at(100 * i64::from(round + 1));
        let claimed = stage.db.worker.claim_orders(lease, 10, now).await.unwrap();
        units.extend(claimed.iter().map(|(wake, _)| wake.unit));
        for (wake, _) in &claimed {
            stage.db.worker.finish_wakes(std::slice::from_ref(wake), now).await.unwrap();
        }
    }
    assert!(units.contains(&unit(&good)) && !units.contains(&unit(&bad)), "{units:?}");
    let dead = stage.dead().await;
    let rows: Vec<String> = stage.all("select row_to_json(w)::text from wakes w").await;
    assert_eq!(dead.len(), 1, "{rows:?}");
    assert_eq!(dead.iter().map(|wake| wake.unit).collect::<Vec<_>>(), [unit(&bad)]);
    assert!(dead[0].last_error.as_ref().unwrap().contains("spec"), "{:?}", dead[0].last_error);
    // It stays dead, also for the next lease holder…
    stage.db.worker.wake_all(stage.db.cluster, at(900)).await.unwrap();
    assert_eq!(stage.dead().await.len(), 1);
    // …until an operator requeues it, which emits an event.
    let operator = stage.context();
    let app = &stage.db.app;
    let platform = trueup_model::org::PLATFORM;
    let dry_run = app.dry_run();
    let would = dry_run.app().requeue_wake(platform, unit(&bad), &operator, at(901)).await;
    let (would, changed) = would.unwrap();
    assert_eq!((would.state, changed), (WakeState::Queued, true));
    assert_eq!(stage.dead().await.len(), 1, "a dry run records nothing");
    app.requeue_wake(platform, unit(&bad), &operator, at(901)).await.unwrap();
    assert_eq!(stage.dead().await, []);
    let again = app.requeue_wake(platform, unit(&bad), &operator, at(902)).await.unwrap();
    assert!(!again.1, "it is not dead any more");
    let kinds = stage.events_of(bad.service.id.uuid()).await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "WakeRequeued").count(), 1, "{kinds:?}");
}

#[tokio::test]
async fn only_defects_kill_a_wake_and_a_new_request_revives_it() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let worker = &stage.db.worker;
    let row = stage.declare("web", "nginx:1").await.row;
    let claim = async |seconds: i64| -> Claimed {
        let claimed = worker.claim_orders(lease, 10, at(seconds)).await.unwrap();
        let found = claimed.into_iter().find(|(wake, _)| wake.unit == unit(&row));
        found.expect("its wake should be due").0
    };
    // Failures of the environment never kill a wake.
    let mut wake = claim(1).await;
    for round in 1..=20 {
        worker
            .retry_wake(&wake, std::time::Duration::ZERO, "unreachable", at(round))
            .await
            .unwrap();
        wake = claim(round).await;
    }
    assert_eq!((wake.attempts, wake.poison), (20, 0));
    for round in 1..POISON_TRIES {
        let now = 100 * i64::from(round);
        assert!(!worker.poison_wake(&wake, "a panic", at(now)).await.unwrap());
        wake = claim(now + 31).await;
        assert_eq!(wake.poison, round);
    }
    // A new request arrives during the last attempt: it may fix the defect.
    stage.declare("web", "nginx:2").await;
    assert!(!worker.poison_wake(&wake, "a panic", at(1000)).await.unwrap());
    wake = claim(1000).await;
    assert_eq!(wake.poison, 1, "{wake:?}");
}

#[tokio::test]
async fn a_repair_keeps_the_lane_and_trace_of_a_user_request() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    let woken = stage.db.worker.wake_all(stage.db.cluster, at(2)).await.unwrap();
    assert_eq!(woken, 0, "both wait already");
    let lane: String = stage.one("select lane from wakes where subject_kind = 'service'").await;
    assert_eq!(lane, "user_change");
    let trace: String = stage.one("select trace from wakes where subject_kind = 'service'").await;
    assert_eq!(trace, "0af7651916cd43dd8448eb211c80319c");
}
