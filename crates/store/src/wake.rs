//! Wakes: which units want looking at. Coalesced by unit; one that arrives while its unit is being
//! worked on survives, because finishing deletes only the request that was claimed.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use trueup_model::id::{ClusterId, OrgId};
use trueup_model::order::Unit;
use trueup_model::wake::{Claimed, Lane};
use uuid::Uuid;

use crate::clock::sql;
use crate::pool::Tx;
use crate::row::{unit, unit_uuid};
use crate::{Error, Worker};

/// Asks for a unit to be looked at, in the transaction of the reason.
pub(crate) async fn request(
    tx: &mut Tx,
    of: Unit,
    org: OrgId,
    cluster: ClusterId,
    lane: Lane,
    now: Timestamp,
) -> Result<(), Error> {
    sqlx::query(
        "insert into wakes as w (unit_kind, unit_id, org_id, cluster_id, lane, due_at)
         values ($1, $2, $3, $4, $5, $6)
         on conflict (unit_kind, unit_id) do update set
             requested_seq = w.requested_seq + 1, lane = $5, attempts = 0,
             due_at = least(w.due_at, $6),
             state = case when w.state = 'running' then 'running' else 'queued' end",
    )
    .bind(of.kind())
    .bind(unit_uuid(of))
    .bind(org.uuid())
    .bind(cluster.uuid())
    .bind(lane.as_str())
    .bind(sql(now))
    .execute(&mut **tx)
    .await?;
    Ok(())
}

pub(crate) async fn claim(
    tx: &mut Tx,
    cluster: ClusterId,
    limit: i64,
    now: Timestamp,
) -> Result<Vec<Claimed>, Error> {
    let rows: Vec<(String, Uuid, Uuid, i64, i32)> = sqlx::query_as(
        "update wakes w set state = 'running', claimed_seq = requested_seq
         from (select unit_kind, unit_id from wakes
               where cluster_id = $1 and state = 'queued' and due_at <= $2
               order by due_at limit $3 for update skip locked) due
         where w.unit_kind = due.unit_kind and w.unit_id = due.unit_id
         returning w.unit_kind, w.unit_id, w.org_id, w.requested_seq, w.attempts",
    )
    .bind(cluster.uuid())
    .bind(sql(now))
    .bind(limit)
    .fetch_all(&mut **tx)
    .await?;
    let claimed = |(kind, id, org, seq, attempts): (String, Uuid, Uuid, i64, i32)| Claimed {
        unit: unit(&kind, id),
        org: OrgId::from_uuid(org),
        cluster,
        seq,
        attempts,
    };
    Ok(rows.into_iter().map(claimed).collect())
}

impl Worker {
    /// Wakes every living unit of a cluster: a new holder has to tell its executor everything.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn wake_all(&self, cluster: ClusterId, now: Timestamp) -> Result<u64, Error> {
        let woken = sqlx::query(
            "insert into wakes (unit_kind, unit_id, org_id, cluster_id, lane, due_at)
             select 'project', id, org_id, cluster_id, 'user_change', $2::timestamptz
                 from projects where cluster_id = $1
             union all
             select 'service', id, org_id, cluster_id,
                    case when desired = 'deleted' then 'delete' else 'user_change' end, $2
                 from services where cluster_id = $1 and deleted_at is null
             on conflict (unit_kind, unit_id) do nothing",
        )
        .bind(cluster.uuid())
        .bind(sql(now))
        .execute(self.pool())
        .await?;
        Ok(woken.rows_affected())
    }

    /// Ends a wake; if it was asked for again in the meantime, it is due at once.
    ///
    /// A claim that was taken away by a new holder of the lease ends nothing.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn finish_wake(&self, wake: &Claimed, now: Timestamp) -> Result<(), Error> {
        let done = sqlx::query(
            "delete from wakes
             where unit_kind = $1 and unit_id = $2 and requested_seq = $3 and claimed_seq = $3",
        )
        .bind(wake.unit.kind())
        .bind(unit_uuid(wake.unit))
        .bind(wake.seq)
        .execute(self.pool())
        .await?;
        if done.rows_affected() == 0 {
            self.requeue(wake, now, None).await?;
        }
        Ok(())
    }

    /// Puts a wake back for later, with the reason.
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
        self.requeue(wake, now.checked_add(after).unwrap_or(now), Some(why)).await
    }

    async fn requeue(
        &self,
        wake: &Claimed,
        due: Timestamp,
        why: Option<&str>,
    ) -> Result<(), Error> {
        sqlx::query(
            "update wakes set state = 'queued', claimed_seq = null, due_at = $3, last_error = $4,
                    attempts = case when $4::text is null then 0 else attempts + 1 end
             where unit_kind = $1 and unit_id = $2 and claimed_seq = $5",
        )
        .bind(wake.unit.kind())
        .bind(unit_uuid(wake.unit))
        .bind(sql(due))
        .bind(why)
        .bind(wake.seq)
        .execute(self.pool())
        .await?;
        Ok(())
    }

    /// How many wakes wait, and how many are being worked on.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn count_wakes(&self) -> Result<(i64, i64), Error> {
        Ok(sqlx::query_as(
            "select count(*) filter (where state = 'queued'), count(*) filter (where state = 'running') from wakes",
        )
        .fetch_one(self.pool())
        .await?)
    }
}
