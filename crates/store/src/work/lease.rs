//! Leases: a cluster belongs to one holder at a time, and a stale one is refused by its epoch.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use trueup_model::id::ClusterId;

use crate::db::clock::sql;
use crate::db::pool::Tx;
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
    /// How long after asking for it a holder sends writes to the cluster: a second less, for two
    /// processes never have quite the same time.
    pub const WRITE_FOR: Duration = Duration::from_secs(9);
    /// How often the holder renews it.
    pub const RENEW_EVERY: Duration = Duration::from_secs(3);
}

/// What came of asking for a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It is the context's.
    Ours(Lease),
    /// Another has it.
    Theirs {
        /// When it ends if nothing more is heard.
        until: Timestamp,
    },
}

impl Turn {
    /// The lease, for those who got it.
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
    /// Takes the lease if it is free, over, or already this holder's; always with a new epoch. A lease
    /// that still ends at `dead` counts as over, whatever the time is.
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
        let over = |until: &Timestamp| *until <= now || Some(*until) == dead;
        // Mostly it is held: then nobody waits for a lock.
        if let Some(until) = held_by_another(&mut tx, cluster, holder).await?.filter(|it| !over(it))
        {
            return Ok(Turn::Theirs { until });
        }
        lock(&mut tx, cluster, holder).await?;
        // Of many who found it free the first one is through by now, and only a new statement sees it.
        if let Some(until) = held_by_another(&mut tx, cluster, holder).await?.filter(|it| !over(it))
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
        Ok(Turn::Ours(Lease { cluster, epoch }))
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

/// When the lease of somebody else ends.
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

/// Makes everybody else who wants this lease wait until this transaction is over.
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
