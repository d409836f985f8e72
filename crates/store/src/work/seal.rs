//! Sealing: giving recorded events their place, once no slower transaction can come before them.
//!
//! A sequence number alone is no order: a transaction that took an earlier number may commit later.
//! Only events of transactions older than every running one are sealed, so a reader that has seen a
//! position has seen everything before it. With its place an event gets its hash: see `rules::chain`.

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

/// Held by whoever seals, for the time of one transaction.
pub(crate) const LOCK: i64 = 7_308_605;

/// How many events one transaction seals at most.
pub const SEALED_AT_ONCE: usize = 1000;

/// Events that have no place yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsealed {
    /// How many.
    pub count: i64,
    /// When the oldest of them happened.
    pub oldest: Option<Timestamp>,
}

/// An event whose turn it is.
#[derive(FromRow)]
struct Ready {
    org_id: Uuid,
    event_id: Uuid,
    #[sqlx(flatten)]
    shown: Shown,
}

/// A place and what stands there, about to be stored.
struct Seal {
    ready: Ready,
    position: i64,
    hash: Hash,
}

impl Worker {
    /// Seals what can be sealed, up to a batch; answers how many.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn seal_events(&self, now: Timestamp) -> Result<usize, Error> {
        let mut tx = self.begin().await?;
        // One sealer at a time, whichever process it is in.
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
        let seals: Vec<Seal> = ready
            .into_iter()
            .map(|ready| {
                let (position, hash) =
                    heads.get(&ready.org_id).copied().unwrap_or((0, Hash::START));
                let position = position.saturating_add(1);
                let org = OrgId::from_uuid(ready.org_id);
                let hash = ready.shown.link(&hash, org, position);
                heads.insert(ready.org_id, (position, hash));
                Seal { ready, position, hash }
            })
            .collect();
        insert(&mut tx, &seals, now).await?;
        crash::point("sealer.sealing").await;
        tx.commit().await?;
        Ok(seals.len())
    }

    /// What waits for the sealer.
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

/// Takes events out of the queue that nothing can come before any more, in their order.
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

/// Where the chain of each of these orgs ends.
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

/// A hash as it is read back.
pub(crate) fn stored(hash: &[u8]) -> Result<Hash, Error> {
    Hash::from_bytes(hash)
        .ok_or_else(|| Error::corrupt("hash", trueup_rules::event::chain::ParseHashError))
}

async fn insert(tx: &mut Tx, seals: &[Seal], now: Timestamp) -> Result<(), Error> {
    sqlx::query(
        "insert into event_seals (org_id, position, event_id, unit_id, type, generation, hash, sealed_at)
         select s.*, $8 from unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::uuid[], $5::text[],
                                    $6::bigint[], $7::bytea[]) as s",
    )
    .bind(seals.iter().map(|seal| seal.ready.org_id).collect::<Vec<_>>())
    .bind(seals.iter().map(|seal| seal.position).collect::<Vec<_>>())
    .bind(seals.iter().map(|seal| seal.ready.event_id).collect::<Vec<_>>())
    .bind(seals.iter().map(|seal| seal.ready.shown.unit_id).collect::<Vec<_>>())
    .bind(seals.iter().map(|seal| seal.ready.shown.r#type.as_str()).collect::<Vec<_>>())
    .bind(seals.iter().map(|seal| seal.ready.shown.generation).collect::<Vec<_>>())
    .bind(seals.iter().map(|seal| seal.hash.as_bytes()).collect::<Vec<_>>())
    .bind(sql(now))
    .execute(&mut **tx)
    .await?;
    Ok(())
}
