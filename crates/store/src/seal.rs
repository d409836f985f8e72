//! Sealing: giving recorded events their place, once no slower transaction can come before them.
//!
//! A sequence number alone is no order: a transaction that took an earlier number may commit later.
//! Only events of transactions older than every running one are sealed, so a reader that has seen a
//! position has seen everything before it.

use crate::{Error, Worker};

impl Worker {
    /// Seals what can be sealed, up to a batch; answers how many.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn seal_events(&self) -> Result<i64, Error> {
        let mut tx = self.begin().await?;
        // One sealer at a time, whichever process it is in.
        let (mine,): (bool,) =
            sqlx::query_as("select pg_try_advisory_xact_lock(7308605)").fetch_one(&mut *tx).await?;
        if !mine {
            return Ok(0);
        }
        let (count,): (i64,) = sqlx::query_as(
            "with ready as (
                 delete from event_queue where seq in (
                     select seq from event_queue
                     where xid < pg_snapshot_xmin(pg_current_snapshot()) order by seq limit 1000)
                 returning seq, event_id, org_id, unit_id),
             last as (
                 select org_id, (select coalesce(max(position), 0) from event_seals s
                                 where s.org_id = r.org_id) as position
                 from (select distinct org_id from ready) r),
             sealed as (
                 insert into event_seals (org_id, position, event_id, unit_id)
                 select r.org_id, l.position + row_number() over (partition by r.org_id order by r.seq),
                        r.event_id, r.unit_id
                 from ready r join last l using (org_id) order by r.seq
                 returning 1)
             select count(*) from sealed",
        )
        .fetch_one(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(count)
    }

    /// How many events wait for the sealer.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn unsealed_events(&self) -> Result<i64, Error> {
        let (count,): (i64,) =
            sqlx::query_as("select count(*) from event_queue").fetch_one(self.pool()).await?;
        Ok(count)
    }
}
