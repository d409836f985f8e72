//! Leases: each cluster has one lease holder at a time; the epoch fences off stale holders.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use trueup_model::id::ClusterId;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::{Error, Worker};

/// The exclusive right to work on a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Which cluster.
    pub cluster: ClusterId,
    /// Incremented on every acquisition.
    pub epoch: i64,
}

impl Lease {
    /// How long a lease lasts without a heartbeat.
    pub const TTL: Duration = Duration::from_secs(10);
    /// How long after requesting the lease a holder may send writes to the cluster.
    ///
    /// A second less than the TTL, to allow for clock differences between processes.
    pub const WRITE_FOR: Duration = Duration::from_secs(9);
    /// How often the holder renews its lease.
    pub const RENEW_EVERY: Duration = Duration::from_secs(3);
}

/// The result of trying to acquire a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The caller holds the lease now.
    Ours(Lease),
    /// Another holder has the lease.
    Theirs {
        /// When that lease expires unless it is renewed.
        until: Timestamp,
    },
}

impl Turn {
    /// The lease, if it was acquired.
    #[must_use]
    pub fn ours(self) -> Option<Lease> {
        match self {
            Self::Ours(lease) => Some(lease),
            Self::Theirs { .. } => None,
        }
    }
}

fn expiry(now: Timestamp) -> Timestamp {
    let ttl = SignedDuration::try_from(Lease::TTL).unwrap_or(SignedDuration::ZERO);
    now.checked_add(ttl).unwrap_or(now)
}

impl Worker {
    /// Acquires the lease if it is free, expired or this holder's own; always with a new epoch.
    ///
    /// A lease whose expiry is exactly `dead` counts as expired, whatever the time is.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn acquire_lease(
        &self,
        cluster: ClusterId,
        holder: &str,
        dead: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Turn, Error> {
        let mut tx = self.begin().await?;
        let expired = |until: &Timestamp| *until <= now || Some(*until) == dead;
        // The common case, another holder has it, takes no lock.
        if let Some(until) =
            held_by_another(&mut tx, cluster, holder).await?.filter(|until| !expired(until))
        {
            return Ok(Turn::Theirs { until });
        }
        lock(&mut tx, cluster, holder).await?;
        // Another process may have acquired it while this one waited for the lock.
        if let Some(until) =
            held_by_another(&mut tx, cluster, holder).await?.filter(|until| !expired(until))
        {
            return Ok(Turn::Theirs { until });
        }
        let (epoch,): (i64,) = sqlx::query_as(
            "update leases set holder = $2, epoch = epoch + 1 where cluster_id = $1 returning epoch",
        )
        .bind(cluster.uuid())
        .bind(holder)
        .fetch_one(&mut *tx)
        .await?;
        sqlx::query(
            "insert into lease_heartbeats (cluster_id, epoch, expires_at) values ($1, $2, $3)
             on conflict (cluster_id) do update set epoch = $2, expires_at = $3",
        )
        .bind(cluster.uuid())
        .bind(epoch)
        .bind(sql(expiry(now)))
        .execute(&mut *tx)
        .await?;
        // Requeue the former holder's claims with a new sequence number, so that a stale holder
        // cannot finish a claim of the new one.
        sqlx::query(
            "update wakes set state = 'queued', claimed_seq = null, requested_seq = requested_seq + 1
             where cluster_id = $1 and state = 'running'",
        )
        .bind(cluster.uuid())
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(Turn::Ours(Lease { cluster, epoch }))
    }

    /// Renews a lease.
    ///
    /// # Errors
    /// [`Error::Fenced`] if another holder has the lease.
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

    /// Releases a lease, so that the next holder need not wait for its expiry.
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

/// When another holder's lease expires; `None` if no other holder has one.
async fn held_by_another(
    tx: &mut Tx,
    cluster: ClusterId,
    holder: &str,
) -> Result<Option<Timestamp>, Error> {
    let until: Option<(jiff_sqlx::Timestamp,)> = sqlx::query_as(
        "select h.expires_at from leases l join lease_heartbeats h using (cluster_id)
         where l.cluster_id = $1 and l.holder <> $2",
    )
    .bind(cluster.uuid())
    .bind(holder)
    .fetch_optional(&mut **tx)
    .await?;
    Ok(until.map(|(until,)| until.to_jiff()))
}

/// Locks the lease row: other acquisitions wait until this transaction ends.
async fn lock(tx: &mut Tx, cluster: ClusterId, holder: &str) -> Result<(), Error> {
    sqlx::query(
        "insert into leases (cluster_id, holder, epoch) values ($1, $2, 0)
         on conflict (cluster_id) do nothing",
    )
    .bind(cluster.uuid())
    .bind(holder)
    .execute(&mut **tx)
    .await?;
    sqlx::query("select from leases where cluster_id = $1 for update")
        .bind(cluster.uuid())
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Fails if the lease was lost, and blocks a new holder until this transaction ends.
pub(crate) async fn fence(tx: &mut Tx, lease: Lease) -> Result<(), Error> {
    let held: Option<(i64,)> =
        sqlx::query_as("select epoch from leases where cluster_id = $1 and epoch = $2 for share")
            .bind(lease.cluster.uuid())
            .bind(lease.epoch)
            .fetch_optional(&mut **tx)
            .await?;
    if held.is_some() { Ok(()) } else { Err(Error::Fenced) }
}
