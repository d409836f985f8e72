//! Leases: each scope of work has one lease holder at a time; the epoch fences off stale holders.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use trueup_model::id::ClusterId;
use trueup_model::org::PLATFORM;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::{Error, Worker};

/// What one holder at a time works on.
pub trait LeaseScope: Copy + Send + Sync {
    /// The kind of scope, as stored with leases and wakes.
    const KIND: &'static str;

    /// Which scope of this kind.
    fn id(self) -> Uuid;
}

impl LeaseScope for ClusterId {
    const KIND: &'static str = "cluster";

    fn id(self) -> Uuid {
        self.uuid()
    }
}

/// The whole platform: work that is done once for all clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Platform;

impl LeaseScope for Platform {
    const KIND: &'static str = "platform";

    fn id(self) -> Uuid {
        PLATFORM.uuid()
    }
}

/// The exclusive right to work on a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease<S = ClusterId> {
    /// Which scope.
    pub scope: S,
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
pub enum Turn<S = ClusterId> {
    /// The caller holds the lease now.
    Ours(Lease<S>),
    /// Another holder has the lease.
    Theirs {
        /// When that lease expires unless it is renewed.
        until: Timestamp,
    },
}

impl<S> Turn<S> {
    /// The lease, if it was acquired.
    #[must_use]
    pub fn ours(self) -> Option<Lease<S>> {
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
    pub async fn acquire_lease<S: LeaseScope>(
        &self,
        scope: S,
        holder: &str,
        dead: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Turn<S>, Error> {
        let mut tx = self.begin().await?;
        let expired = |until: &Timestamp| *until <= now || Some(*until) == dead;
        // The common case, another holder has it, takes no lock.
        if let Some(until) =
            held_by_another(&mut tx, scope, holder).await?.filter(|until| !expired(until))
        {
            return Ok(Turn::Theirs { until });
        }
        lock(&mut tx, scope, holder).await?;
        // Another process may have acquired it while this one waited for the lock.
        if let Some(until) =
            held_by_another(&mut tx, scope, holder).await?.filter(|until| !expired(until))
        {
            return Ok(Turn::Theirs { until });
        }
        let (epoch,): (i64,) = sqlx::query_as(
            "update leases set holder = $3, epoch = epoch + 1
             where scope_kind = $1 and scope_id = $2 returning epoch",
        )
        .bind(S::KIND)
        .bind(scope.id())
        .bind(holder)
        .fetch_one(&mut *tx)
        .await?;
        sqlx::query(
            "insert into lease_heartbeats (scope_kind, scope_id, epoch, expires_at)
             values ($1, $2, $3, $4)
             on conflict (scope_kind, scope_id) do update set epoch = $3, expires_at = $4",
        )
        .bind(S::KIND)
        .bind(scope.id())
        .bind(epoch)
        .bind(sql(expiry(now)))
        .execute(&mut *tx)
        .await?;
        // Requeue the former holder's claims with a new sequence number, so that a stale holder
        // cannot finish a claim of the new one.
        sqlx::query(
            "update wakes set state = 'queued', claimed_seq = null, requested_seq = requested_seq + 1
             where scope_kind = $1 and scope_id = $2 and state = 'running'",
        )
        .bind(S::KIND)
        .bind(scope.id())
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(Turn::Ours(Lease { scope, epoch }))
    }

    /// Renews a lease.
    ///
    /// # Errors
    /// [`Error::Fenced`] if another holder has the lease.
    pub async fn renew_lease<S: LeaseScope>(
        &self,
        lease: Lease<S>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let renewed = sqlx::query(
            "update lease_heartbeats set expires_at = $4
             where scope_kind = $1 and scope_id = $2 and epoch = $3",
        )
        .bind(S::KIND)
        .bind(lease.scope.id())
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
    pub async fn release_lease<S: LeaseScope>(
        &self,
        lease: Lease<S>,
        now: Timestamp,
    ) -> Result<(), Error> {
        sqlx::query(
            "update lease_heartbeats set expires_at = $4
             where scope_kind = $1 and scope_id = $2 and epoch = $3",
        )
        .bind(S::KIND)
        .bind(lease.scope.id())
        .bind(lease.epoch)
        .bind(sql(now))
        .execute(self.pool())
        .await?;
        Ok(())
    }
}

/// When another holder's lease expires; `None` if no other holder has one.
async fn held_by_another<S: LeaseScope>(
    tx: &mut Tx,
    scope: S,
    holder: &str,
) -> Result<Option<Timestamp>, Error> {
    let until: Option<(jiff_sqlx::Timestamp,)> = sqlx::query_as(
        "select h.expires_at from leases l join lease_heartbeats h using (scope_kind, scope_id)
         where l.scope_kind = $1 and l.scope_id = $2 and l.holder <> $3",
    )
    .bind(S::KIND)
    .bind(scope.id())
    .bind(holder)
    .fetch_optional(&mut **tx)
    .await?;
    Ok(until.map(|(until,)| until.to_jiff()))
}

/// Locks the lease row: other acquisitions wait until this transaction ends.
async fn lock<S: LeaseScope>(tx: &mut Tx, scope: S, holder: &str) -> Result<(), Error> {
    sqlx::query(
        "insert into leases (scope_kind, scope_id, holder, epoch) values ($1, $2, $3, 0)
         on conflict (scope_kind, scope_id) do nothing",
    )
    .bind(S::KIND)
    .bind(scope.id())
    .bind(holder)
    .execute(&mut **tx)
    .await?;
    sqlx::query("select from leases where scope_kind = $1 and scope_id = $2 for update")
        .bind(S::KIND)
        .bind(scope.id())
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Fails if the lease was lost, and blocks a new holder until this transaction ends.
pub(crate) async fn fence<S: LeaseScope>(tx: &mut Tx, lease: Lease<S>) -> Result<(), Error> {
    let held: Option<(i64,)> = sqlx::query_as(
        "select epoch from leases
         where scope_kind = $1 and scope_id = $2 and epoch = $3 for share",
    )
    .bind(S::KIND)
    .bind(lease.scope.id())
    .bind(lease.epoch)
    .fetch_optional(&mut **tx)
    .await?;
    if held.is_some() { Ok(()) } else { Err(Error::Fenced) }
}
