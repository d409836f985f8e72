//! Repairs the event log at startup, before the sealer runs.
//!
//! Computes hashes for events that were sealed before the hash chain existed; in Rust, so that
//! there is one hash implementation. These hashes prove nothing about changes made before they were
//! computed. Also restamps queued events of a restored database, which would never be sealed.

use sqlx::{AssertSqlSafe, FromRow, PgPool};
use trueup_model::id::OrgId;
use trueup_rules::event::chain::Hash;
use uuid::Uuid;

use crate::Error;
use crate::db::pool::Tx;
use crate::event::{SHOWN, Shown};
use crate::work::seal::{LOCK, stored};

const BATCH: i64 = 5000;

#[derive(FromRow)]
struct Row {
    position: i64,
    #[sqlx(flatten)]
    shown: Shown,
}

/// Fills in missing hashes, then makes the column `not null`. Does nothing if that is done.
pub(crate) async fn hash_seals(owner: &PgPool) -> Result<(), Error> {
    let (done,): (bool,) = sqlx::query_as(
        "select attnotnull from pg_attribute
         where attrelid = 'event_seals'::regclass and attname = 'hash'",
    )
    .fetch_one(owner)
    .await?;
    if done {
        return Ok(());
    }
    let mut tx = begin(owner).await?;
    sqlx::query("select pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *tx).await?;
    let orgs: Vec<(Uuid,)> =
        sqlx::query_as("select distinct org_id from event_seals where hash is null")
            .fetch_all(&mut *tx)
            .await?;
    for (org,) in orgs {
        while hash_batch(&mut tx, org).await? {}
    }
    sqlx::query("alter table event_seals alter column hash set not null").execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(())
}

/// Restamps queued events that were restored from another Postgres server.
///
/// They carry transaction ids of that server, which this server may not reach for a long time, so
/// the sealer would wait for them. No transaction of this server has such an id yet.
pub(crate) async fn restamp_queue(owner: &PgPool) -> Result<(), Error> {
    sqlx::query(
        "update event_queue set xid = pg_current_xact_id()
         where xid >= pg_snapshot_xmax(pg_current_snapshot())",
    )
    .execute(owner)
    .await?;
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the owner role has no wrapper type like App or Worker"
)]
async fn begin(owner: &PgPool) -> Result<Tx, Error> {
    Ok(owner.begin().await?)
}

/// Hashes the next batch of an org's events; returns whether there were any.
async fn hash_batch(tx: &mut Tx, org: Uuid) -> Result<bool, Error> {
    let last: Option<(i64, Vec<u8>)> = sqlx::query_as(
        "select position, hash from event_seals
         where org_id = $1 and hash is not null order by position desc limit 1",
    )
    .bind(org)
    .fetch_optional(&mut **tx)
    .await?;
    let (after, mut head) = match last {
        Some((position, hash)) => (position, stored(&hash)?),
        None => (0, Hash::START),
    };
    let statement = format!(
        "select s.position, {SHOWN} from event_seals s join events e on e.id = s.event_id
         where s.org_id = $1 and s.position > $2 order by s.position limit $3"
    );
    let rows: Vec<Row> = sqlx::query_as(AssertSqlSafe(statement))
        .bind(org)
        .bind(after)
        .bind(BATCH)
        .fetch_all(&mut **tx)
        .await?;
    let mut hashes = Vec::with_capacity(rows.len());
    for row in &rows {
        head = row.shown.link(&head, OrgId::from_uuid(org), row.position)?;
        hashes.push(head.as_bytes().to_vec());
    }
    sqlx::query(
        "update event_seals s set hash = n.hash from unnest($2::bigint[], $3::bytea[]) as n (position, hash)
         where s.org_id = $1 and s.position = n.position",
    )
    .bind(org)
    .bind(rows.iter().map(|row| row.position).collect::<Vec<_>>())
    .bind(&hashes)
    .execute(&mut **tx)
    .await?;
    Ok(!rows.is_empty())
}
