//! Leases: a cluster belongs to one holder at a time, and a stale one is refused by its epoch.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use trueup_model::id::ClusterId;

use crate::clock::sql;
use crate::pool::Tx;
use crate::{Error, Worker};

/// The right to work on a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Which cluster.
    pub cluster: ClusterId,
    /// Raised each time the holder changes or starts anew.
    pub epoch: i64,
}

impl Lease {
    /// How long a lease lasts without a heartbeat.
    pub const TTL: Duration = Duration::from_secs(10);
    /// How often the holder renews it.
    pub const RENEW_EVERY: Duration = Duration::from_secs(3);
}

fn expiry(now: Timestamp) -> Timestamp {
    let ttl = SignedDuration::try_from(Lease::TTL).unwrap_or(SignedDuration::ZERO);
    now.checked_add(ttl).unwrap_or(now)
}

impl Worker {
    /// Takes the lease if it is free, over, or already this holder's; always with a new epoch.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn acquire_lease(
        &self,
        cluster: ClusterId,
        holder: &str,
        now: Timestamp,
    ) -> Result<Option<Lease>, Error> {
        let mut tx = self.begin().await?;
        let taken: Option<(i64,)> = sqlx::query_as(
            "insert into leases as l (cluster_id, holder, epoch) values ($1, $2, 1)
             on conflict (cluster_id) do update set holder = $2, epoch = l.epoch + 1
             where l.holder = $2 or not exists (
                 select from lease_heartbeats h where h.cluster_id = $1 and h.expires_at > $3)
             returning epoch",
        )
        .bind(cluster.uuid())
        .bind(holder)
        .bind(sql(now))
        .fetch_optional(&mut *tx)
        .await?;
        let Some((epoch,)) = taken else {
            return Ok(None);
        };
        sqlx::query(
            "insert into lease_heartbeats (cluster_id, epoch, expires_at) values ($1, $2, $3)
             on conflict (cluster_id) do update set epoch = $2, expires_at = $3",
        )
        .bind(cluster.uuid())
        .bind(epoch)
        .bind(sql(expiry(now)))
        .execute(&mut *tx)
        .await?;
        // What the last holder had claimed is nobody's now, and counts as asked for anew: should that
        // holder still be there, it must not end a claim of the next one.
        sqlx::query(
            "update wakes set state = 'queued', claimed_seq = null, requested_seq = requested_seq + 1
             where cluster_id = $1 and state = 'running'",
        )
        .bind(cluster.uuid())
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(Some(Lease { cluster, epoch }))
    }

    /// Keeps a lease alive.
    ///
    /// # Errors
    /// [`Error::Fenced`] when somebody else holds it now.
    pub async fn renew_lease(&self, lease: Lease, now: Timestamp) -> Result<(), Error> {
        let renewed = sqlx::query(
            "update lease_heartbeats set expires_at = $3 where cluster_id = $1 and epoch = $2",
        )
        .bind(lease.cluster.uuid())
        .bind(lease.epoch)
        .bind(sql(expiry(now)))
        .execute(self.pool())
        .await?;
        if renewed.rows_affected() == 1 { Ok(()) } else { Err(Error::Fenced) }
    }

    /// Gives a lease back, so that the next holder need not wait.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn release_lease(&self, lease: Lease, now: Timestamp) -> Result<(), Error> {
        sqlx::query(
            "update lease_heartbeats set expires_at = $3 where cluster_id = $1 and epoch = $2",
        )
        .bind(lease.cluster.uuid())
        .bind(lease.epoch)
        .bind(sql(now))
        .execute(self.pool())
        .await?;
        Ok(())
    }
}

/// Refuses a transaction whose lease is over, and holds off a new holder until it has committed.
pub(crate) async fn fence(tx: &mut Tx, lease: Lease) -> Result<(), Error> {
    let held: Option<(i64,)> =
        sqlx::query_as("select epoch from leases where cluster_id = $1 and epoch = $2 for share")
            .bind(lease.cluster.uuid())
            .bind(lease.epoch)
            .fetch_optional(&mut **tx)
            .await?;
    if held.is_some() { Ok(()) } else { Err(Error::Fenced) }
}
