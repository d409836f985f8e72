//! Wakes: a work queue of units to reconcile, coalesced by unit.
//!
//! A wake requested while its unit is in progress is not lost: finishing deletes only the request
//! that was claimed.

use std::collections::BTreeSet;
use std::slice;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use trueup_model::event::{Fact, NewEvent, ReconcileChecked, Source};
use trueup_model::id::{ClusterId, OrgId};
use trueup_model::order::Unit;
use trueup_model::report::Outcome;
use trueup_model::wake::{Claimed, Lane, POISON_TRIES};
use trueup_rules::fair_queue::backoff;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::unit_uuid;
use crate::work::lease::{Lease, fence};
use crate::{Error, Worker, event};

mod backlog;
mod claim;

pub use backlog::{LaneLoad, WakeFilter};
pub(crate) use backlog::{find, generation};
pub(crate) use claim::claim;

/// Backoff after a defect: doubled each time, from the first value up to the second.
const POISON_LEAST: Duration = Duration::from_secs(1);
const POISON_MOST: Duration = Duration::from_secs(30);

/// A request to reconcile a unit.
pub(crate) struct Request {
    pub(crate) unit: Unit,
    pub(crate) org: OrgId,
    pub(crate) cluster: ClusterId,
    pub(crate) lane: Lane,
    /// The trace id of the request that caused it.
    pub(crate) trace: Option<String>,
    /// Whether to read from the cluster instead of the cache.
    pub(crate) fresh: bool,
}

impl Request {
    /// Caused by a divergence, not by a request.
    pub(crate) const fn repair(unit: Unit, org: OrgId, cluster: ClusterId) -> Self {
        Self { unit, org, cluster, lane: Lane::Repair, trace: None, fresh: false }
    }
}

/// Requests a wake, in the transaction that causes it.
///
/// A user's request resets attempts and backoff and revives a dead wake. A repair does neither, and
/// does not replace the lane of a user's request.
pub(crate) async fn request(tx: &mut Tx, wanted: &Request, now: Timestamp) -> Result<(), Error> {
    request_each(tx, slice::from_ref(&wanted.unit), wanted, now).await
}

/// Requests a wake of each of these units, as [`request`] does for one, in the order of their ids.
pub(crate) async fn request_each(
    tx: &mut Tx,
    units: &[Unit],
    wanted: &Request,
    now: Timestamp,
) -> Result<(), Error> {
    sqlx::query(
        "insert into wakes as w (subject_kind, subject_id, org_id, scope_kind, scope_id, lane, due_at, trace,
                                fresh)
         select u.kind, u.id, $3, 'cluster', $4, $5, $6, $7, $8
         from unnest($1::text[], $2::uuid[]) as u (kind, id) order by u.id
         on conflict (subject_kind, subject_id) do update set
             requested_seq = w.requested_seq + 1,
             lane = case when $9 or w.state = 'running' then $5
                         when w.lane in ('user_change', 'delete') then w.lane
                         when w.lane = 'repair' then w.lane else $5 end,
             attempts = case when $9 then 0 else w.attempts end,
             poison = case when $9 then 0 else w.poison end,
             due_at = case when $9 or w.attempts = 0 then least(w.due_at, $6) else w.due_at end,
             state = case when w.state = 'running' then 'running' else 'queued' end,
             died_at = null, trace = coalesce($7, w.trace), fresh = w.fresh or $8
         where $9 or w.state <> 'dead'",
    )
    .bind(units.iter().map(|unit| unit.kind()).collect::<Vec<_>>())
    .bind(units.iter().map(|unit| unit_uuid(*unit)).collect::<Vec<_>>())
    .bind(wanted.org.uuid())
    .bind(wanted.cluster.uuid())
    .bind(wanted.lane.into_str())
    .bind(sql(now))
    .bind(&wanted.trace)
    .bind(wanted.fresh)
    .bind(wanted.lane.is_asked())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

impl Worker {
    /// Wakes every unit of a cluster: a new lease holder's executor needs all orders.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn wake_all(&self, cluster: ClusterId, now: Timestamp) -> Result<u64, Error> {
        let mut tx = self.begin().await?;
        let woken = repair(&mut tx, cluster, None, now).await?;
        tx.commit().await?;
        Ok(woken)
    }

    /// Requeues stale claims of a cluster, those not in flight; returns how many.
    ///
    /// A claim goes stale when its answer was lost, or when its wake could not be finished.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease was lost.
    pub async fn requeue_lost(
        &self,
        lease: Lease,
        in_flight: &BTreeSet<Unit>,
    ) -> Result<u64, Error> {
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        // With a new sequence number: a late finish of the stale claim must not end the next one.
        let lost = sqlx::query(
            "update wakes w set state = 'queued', claimed_seq = null, requested_seq = requested_seq + 1
             where scope_id = $1 and state = 'running' and not exists (
                 select from unnest($2::text[], $3::uuid[]) as u (kind, id)
                 where u.kind = w.subject_kind and u.id = w.subject_id)",
        )
        .bind(lease.scope.uuid())
        .bind(in_flight.iter().map(|unit| unit.kind()).collect::<Vec<_>>())
        .bind(in_flight.iter().map(|unit| unit_uuid(*unit)).collect::<Vec<_>>())
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(lost.rows_affected())
    }

    /// Finishes wakes; those requested again in the meantime are due at once. Returns how many.
    ///
    /// A claim that a new lease holder has requeued finishes nothing.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn finish_wakes(&self, wakes: &[Claimed], now: Timestamp) -> Result<u64, Error> {
        let mut tx = self.begin().await?;
        let again = finish(&mut tx, wakes, now).await?;
        tx.commit().await?;
        Ok(again)
    }

    /// Finishes a wake that required fresh reads, and emits an event with the outcome.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn finish_check(
        &self,
        wake: &Claimed,
        outcome: &Outcome,
        now: Timestamp,
    ) -> Result<u64, Error> {
        let mut tx = self.begin().await?;
        let again = finish(&mut tx, slice::from_ref(wake), now).await?;
        if wake.trace.is_some()
            && let Some(generation) = generation(&mut tx, wake.unit, wake.org).await?
        {
            let fact =
                Fact::ReconcileChecked(ReconcileChecked { outcome: outcome.label().to_owned() });
            let (unit, source) = (wake.unit, Source::Reconciler);
            let event = event::about(wake.org, unit.into(), generation, fact, source, now);
            let event = NewEvent { trace: wake.trace.clone(), ..event };
            event::record(&mut tx, &[event]).await?;
        }
        tx.commit().await?;
        Ok(again)
    }

    /// Requeues a wake for a later retry, with the reason.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn retry_wake(
        &self,
        wake: &Claimed,
        after: Duration,
        why: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::ZERO);
        let due = now.checked_add(after).unwrap_or(now);
        sqlx::query(
            "update wakes set state = 'queued', claimed_seq = null, due_at = $3, last_error = $4,
                    attempts = attempts + 1
             where subject_kind = $1 and subject_id = $2 and claimed_seq = $5 and org_id = $6",
        )
        .bind(wake.unit.kind())
        .bind(unit_uuid(wake.unit))
        .bind(sql(due))
        .bind(why)
        .bind(wake.seq)
        .bind(wake.org.uuid())
        .execute(self.pool())
        .await?;
        Ok(())
    }

    /// Requeues a wake after a defect, or marks it dead after too many; returns whether it is dead.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn poison_wake(
        &self,
        wake: &Claimed,
        why: &str,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let mut tx = self.begin().await?;
        let dead = poison(&mut tx, wake, why, now).await?;
        tx.commit().await?;
        Ok(dead)
    }
}

/// Wakes these units of a cluster, or all of them, except those that have a wake; returns how many.
pub(crate) async fn repair(
    tx: &mut Tx,
    cluster: ClusterId,
    only: Option<Vec<Uuid>>,
    now: Timestamp,
) -> Result<u64, Error> {
    let woken = sqlx::query(
        "insert into wakes (subject_kind, subject_id, org_id, scope_kind, scope_id, lane, due_at)
         select 'project', id, org_id, 'cluster', cluster_id,
                case when desired = 'deleted' then 'delete' else 'repair' end, $2::timestamptz
             from projects where cluster_id = $1 and deleted_at is null
                             and ($3::uuid[] is null or id = any($3))
         union all
         select 'service', id, org_id, 'cluster', cluster_id,
                case when desired = 'deleted' then 'delete' else 'repair' end, $2
             from services where cluster_id = $1 and deleted_at is null
                             and ($3::uuid[] is null or id = any($3))
         on conflict (subject_kind, subject_id) do nothing",
    )
    .bind(cluster.uuid())
    .bind(sql(now))
    .bind(only)
    .execute(&mut **tx)
    .await?;
    Ok(woken.rows_affected())
}

/// Finishes claims; returns how many are due again.
///
/// Wakes that were requested again since their claim are requeued by a second statement, which sees
/// what was committed while the first one waited.
async fn finish(tx: &mut Tx, wakes: &[Claimed], now: Timestamp) -> Result<u64, Error> {
    let kinds: Vec<&str> = wakes.iter().map(|wake| wake.unit.kind()).collect();
    let ids: Vec<Uuid> = wakes.iter().map(|wake| unit_uuid(wake.unit)).collect();
    let seqs: Vec<i64> = wakes.iter().map(|wake| wake.seq).collect();
    let orgs: Vec<Uuid> = wakes.iter().map(|wake| wake.org.uuid()).collect();
    let done = sqlx::query(
        "delete from wakes w
         using unnest($1::text[], $2::uuid[], $3::bigint[], $4::uuid[]) as e (kind, id, seq, org_id)
         where w.subject_kind = e.kind and w.subject_id = e.id and w.requested_seq = e.seq
           and w.claimed_seq = e.seq and w.org_id = e.org_id",
    )
    .bind(&kinds)
    .bind(&ids)
    .bind(&seqs)
    .bind(&orgs)
    .execute(&mut **tx)
    .await?;
    if done.rows_affected() == u64::try_from(wakes.len()).unwrap_or(u64::MAX) {
        return Ok(0);
    }
    let again = sqlx::query(
        "update wakes w set state = 'queued', claimed_seq = null, due_at = $4, last_error = null,
                attempts = 0, poison = 0
         from unnest($1::text[], $2::uuid[], $3::bigint[], $5::uuid[]) as e (kind, id, seq, org_id)
         where w.subject_kind = e.kind and w.subject_id = e.id and w.claimed_seq = e.seq
           and w.org_id = e.org_id",
    )
    .bind(&kinds)
    .bind(&ids)
    .bind(&seqs)
    .bind(sql(now))
    .bind(&orgs)
    .execute(&mut **tx)
    .await?;
    Ok(again.rows_affected())
}

/// Counts a defect against a claimed wake. A newer request keeps it alive: it may fix the defect.
pub(crate) async fn poison(
    tx: &mut Tx,
    wake: &Claimed,
    why: &str,
    now: Timestamp,
) -> Result<bool, Error> {
    let tries = u32::try_from(wake.poison).unwrap_or(0);
    let pause = backoff(POISON_LEAST, POISON_MOST, tries, wake.unit);
    let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::ZERO);
    let state: Option<(String,)> = sqlx::query_as(
        "update wakes set claimed_seq = null, last_error = $4, attempts = attempts + 1,
                poison = poison + 1,
                state = case when poison + 1 >= $6 and requested_seq = $3 then 'dead' else 'queued' end,
                died_at = case when poison + 1 >= $6 and requested_seq = $3 then $7::timestamptz end,
                due_at = case when requested_seq = $3 then $5 else $7 end
         where subject_kind = $1 and subject_id = $2 and claimed_seq = $3 and org_id = $8 returning state",
    )
    .bind(wake.unit.kind())
    .bind(unit_uuid(wake.unit))
    .bind(wake.seq)
    .bind(why)
    .bind(sql(now.checked_add(pause).unwrap_or(now)))
    .bind(POISON_TRIES)
    .bind(sql(now))
    .bind(wake.org.uuid())
    .fetch_optional(&mut **tx)
    .await?;
    Ok(state.is_some_and(|(state,)| state == "dead"))
}

/// Deletes a claimed wake whose unit has no row.
pub(crate) async fn drop_claimed(tx: &mut Tx, wake: &Claimed) -> Result<(), Error> {
    sqlx::query(
        "delete from wakes
         where subject_kind = $1 and subject_id = $2 and claimed_seq = $3 and org_id = $4",
    )
    .bind(wake.unit.kind())
    .bind(unit_uuid(wake.unit))
    .bind(wake.seq)
    .bind(wake.org.uuid())
    .execute(&mut **tx)
    .await?;
    Ok(())
}
