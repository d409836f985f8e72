//! Sealing: gives recorded events their position and hash.
//!
//! A sequence number alone is no order: a transaction with an earlier number may commit later. Only
//! events of transactions older than every running one are sealed, so a reader that has seen a
//! position has seen everything before it. For the hash see `rules::event::chain`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sqlx::{AssertSqlSafe, FromRow};
use trueup_model::crash;
use trueup_model::id::OrgId;
use trueup_rules::event::chain::Hash;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::event::{SHOWN, Shown};
use crate::{Error, Worker};

/// Advisory lock of the sealer, held for one transaction.
pub(crate) const LOCK: i64 = 7_308_605;

/// The most events that one transaction seals.
pub const SEALED_AT_ONCE: usize = 1000;

/// Events that are not sealed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsealed {
    /// How many.
    pub count: i64,
    /// When the oldest of them happened.
    pub oldest: Option<Timestamp>,
}

/// An event that can be sealed.
#[derive(FromRow)]
struct Ready {
    org_id: Uuid,
    event_id: Uuid,
    #[sqlx(flatten)]
    shown: Shown,
}

/// An event with its position and hash, about to be stored.
struct Seal {
    ready: Ready,
    position: i64,
    hash: Hash,
}

impl Worker {
    /// Seals up to [`SEALED_AT_ONCE`] events; returns how many.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn seal_events(&self, now: Timestamp) -> Result<usize, Error> {
        let mut tx = self.begin().await?;
        // One sealer at a time across all processes.
        let (mine,): (bool,) = sqlx::query_as("select pg_try_advisory_xact_lock($1)")
            .bind(LOCK)
            .fetch_one(&mut *tx)
            .await?;
        if !mine {
            return Ok(0);
        }
        let ready = take(&mut tx).await?;
        if ready.is_empty() {
            return Ok(0);
        }
        let mut heads = heads(&mut tx, &ready).await?;
        let mut seals: Vec<Seal> = Vec::with_capacity(ready.len());
        for ready in ready {
            let (position, hash) = heads.get(&ready.org_id).copied().unwrap_or((0, Hash::START));
            let position = position.saturating_add(1);
            let hash = ready.shown.link(&hash, OrgId::from_uuid(ready.org_id), position)?;
            heads.insert(ready.org_id, (position, hash));
            seals.push(Seal { ready, position, hash });
        }
        insert(&mut tx, &seals, now).await?;
        crash::point("sealer.sealing").await;
        tx.commit().await?;
        Ok(seals.len())
    }

    /// The backlog of the sealer.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn unsealed_events(&self) -> Result<Unsealed, Error> {
        let (count, oldest): (i64, Option<jiff_sqlx::Timestamp>) = sqlx::query_as(
            "select count(*), (select e.at from event_queue q join events e on e.id = q.event_id
                               order by q.seq limit 1)
             from event_queue",
        )
        .fetch_one(self.pool())
        .await?;
        Ok(Unsealed { count, oldest: oldest.map(jiff_sqlx::Timestamp::to_jiff) })
    }
}

/// Takes events from the queue that no running transaction can precede, in order.
async fn take(tx: &mut Tx) -> Result<Vec<Ready>, Error> {
    let statement = format!(
        "with ready as (
             delete from event_queue where seq in (
                 select seq from event_queue
                 where xid < pg_snapshot_xmin(pg_current_snapshot()) order by seq limit $1)
             returning seq, event_id, org_id)
         select r.org_id, r.event_id, {SHOWN}
         from ready r join events e on e.id = r.event_id order by r.seq"
    );
    let limit = i64::try_from(SEALED_AT_ONCE).unwrap_or(i64::MAX);
    Ok(sqlx::query_as(AssertSqlSafe(statement)).bind(limit).fetch_all(&mut **tx).await?)
}

/// The last position and hash of each org's chain.
async fn heads(tx: &mut Tx, ready: &[Ready]) -> Result<BTreeMap<Uuid, (i64, Hash)>, Error> {
    let mut orgs: Vec<Uuid> = ready.iter().map(|ready| ready.org_id).collect();
    orgs.sort_unstable();
    orgs.dedup();
    let rows: Vec<(Uuid, i64, Vec<u8>)> = sqlx::query_as(
        "select o.id, s.position, s.hash from unnest($1::uuid[]) as o (id)
         cross join lateral (select position, hash from event_seals
                             where org_id = o.id order by position desc limit 1) s",
    )
    .bind(&orgs)
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter().map(|(org, position, hash)| Ok((org, (position, stored(&hash)?)))).collect()
}

/// Decodes a stored hash.
pub(crate) fn stored(hash: &[u8]) -> Result<Hash, Error> {
    Hash::from_bytes(hash)
        .ok_or_else(|| Error::corrupt("hash", trueup_rules::event::chain::ParseHashError))
}

async fn insert(tx: &mut Tx, seals: &[Seal], now: Timestamp) -> Result<(), Error> {
    sqlx::query(
        "insert into event_seals (org_id, position, event_id, subject_id, type, generation, hash, sealed_at)
         select s.*, $8 from unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::uuid[], $5::text[],
                                    $6::bigint[], $7::bytea[]) as s",
    )
    .bind(seals.iter().map(|seal| seal.ready.org_id).collect::<Vec<_>>())
    .bind(seals.iter().map(|seal| seal.position).collect::<Vec<_>>())
    .bind(seals.iter().map(|seal| seal.ready.event_id).collect::<Vec<_>>())
    .bind(seals.iter().map(|seal| seal.ready.shown.subject_id).collect::<Vec<_>>())
    .bind(seals.iter().map(|seal| seal.ready.shown.r#type.as_str()).collect::<Vec<_>>())
    .bind(seals.iter().map(|seal| seal.ready.shown.generation).collect::<Vec<_>>())
    .bind(seals.iter().map(|seal| seal.hash.as_bytes()).collect::<Vec<_>>())
    .bind(sql(now))
    .execute(&mut **tx)
    .await?;
    Ok(())
}
