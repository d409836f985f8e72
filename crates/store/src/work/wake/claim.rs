//! Claims wakes by weighted fair queueing: lanes by weight, and round robin over the orgs of a
//! lane.
//!
//! One org's backlog does not delay other orgs. Every statement reads as many index entries as it
//! claims.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sqlx::FromRow;
use trueup_model::id::{ClusterId, OrgId};
use trueup_model::wake::{Claimed, Lane};
use trueup_rules::fair_queue::Turns;
use uuid::Uuid;

use crate::Error;
use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{read, unit};

/// Claims up to `limit` due wakes of a cluster.
pub(crate) async fn claim(
    tx: &mut Tx,
    cluster: ClusterId,
    turns: &mut Turns,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<Claimed>, Error> {
    let waiting = waiting(tx, cluster, now).await?;
    let mut claimed = Vec::new();
    for (lane, share) in turns.share(&waiting, limit) {
        let orgs = next_orgs(tx, cluster, lane, turns.last_org(lane), share, now).await?;
        if let Some(last) = orgs.last() {
            turns.note_org(lane, OrgId::from_uuid(*last));
        }
        claimed.extend(claim_lane(tx, cluster, lane, &orgs, share, now).await?);
    }
    Ok(claimed)
}

/// The lanes with due wakes.
///
/// Selects the first entry of each lane in index order: for a plain `exists` Postgres would scan
/// the whole table.
async fn waiting(tx: &mut Tx, cluster: ClusterId, now: Timestamp) -> Result<Vec<Lane>, Error> {
    let rows: Vec<(String,)> = sqlx::query_as(
        "select l.lane from unnest($3::text[]) as l (lane) cross join lateral
             (select from wakes w where w.scope_id = $1 and w.lane = l.lane and w.state = 'queued'
                and w.due_at <= $2
              order by w.org_id limit 1) first",
    )
    .bind(cluster.uuid())
    .bind(sql(now))
    .bind(Lane::ALL.map(|lane| lane.into_str()).to_vec())
    .fetch_all(&mut **tx)
    .await?;
    let due: Vec<Lane> =
        rows.into_iter().map(|(lane,)| read("lane", lane)).collect::<Result<_, _>>()?;
    Ok(Lane::ALL.into_iter().filter(|lane| due.contains(lane)).collect())
}

/// The next orgs in the round robin: those after `last`, then from the beginning.
async fn next_orgs(
    tx: &mut Tx,
    cluster: ClusterId,
    lane: Lane,
    last: OrgId,
    places: usize,
    now: Timestamp,
) -> Result<Vec<Uuid>, Error> {
    // A loose index scan: one index entry per org.
    let rows: Vec<(Uuid,)> = sqlx::query_as(
        "with recursive later (org_id) as (
             (select org_id from wakes
              where scope_id = $1 and lane = $2 and state = 'queued' and due_at <= $3 and org_id > $4
              order by org_id limit 1)
             union all
             select n.org_id from later l cross join lateral
                 (select org_id from wakes
                  where scope_id = $1 and lane = $2 and state = 'queued' and due_at <= $3
                    and org_id > l.org_id
                  order by org_id limit 1) n),
         earlier (org_id) as (
             (select org_id from wakes
              where scope_id = $1 and lane = $2 and state = 'queued' and due_at <= $3
              order by org_id limit 1)
             union all
             select n.org_id from earlier e cross join lateral
                 (select org_id from wakes
                  where scope_id = $1 and lane = $2 and state = 'queued' and due_at <= $3
                    and org_id > e.org_id
                  order by org_id limit 1) n)
         (select org_id from later limit $5)
         union all
         (select org_id from earlier where org_id <= $4 limit $5)
         limit $5",
    )
    .bind(cluster.uuid())
    .bind(lane.into_str())
    .bind(sql(now))
    .bind(last.uuid())
    .bind(i64::try_from(places).unwrap_or(i64::MAX))
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|(org,)| org).collect())
}

#[derive(FromRow)]
struct Columns {
    subject_kind: String,
    subject_id: Uuid,
    org_id: Uuid,
    requested_seq: i64,
    attempts: i32,
    poison: i32,
    fresh: bool,
    trace: Option<String>,
}

/// Claims the oldest wakes of these orgs, the same number of each.
async fn claim_lane(
    tx: &mut Tx,
    cluster: ClusterId,
    lane: Lane,
    orgs: &[Uuid],
    places: usize,
    now: Timestamp,
) -> Result<Vec<Claimed>, Error> {
    if orgs.is_empty() {
        return Ok(Vec::new());
    }
    let each = places.div_ceil(orgs.len());
    let rows: Vec<Columns> = sqlx::query_as(
        "with due as materialized (
             select w.subject_kind, w.subject_id from unnest($4::uuid[]) as o (id) cross join lateral
                 (select subject_kind, subject_id from wakes
                  where scope_id = $1 and lane = $2 and org_id = o.id and state = 'queued'
                    and due_at <= $3
                  order by due_at limit $5 for update skip locked) w
             limit $6)
         update wakes w set state = 'running', claimed_seq = requested_seq
         from due where w.subject_kind = due.subject_kind and w.subject_id = due.subject_id
         returning w.subject_kind, w.subject_id, w.org_id, w.requested_seq, w.attempts, w.poison, w.fresh,
                   w.trace",
    )
    .bind(cluster.uuid())
    .bind(lane.into_str())
    .bind(sql(now))
    .bind(orgs)
    .bind(i64::try_from(each).unwrap_or(i64::MAX))
    .bind(i64::try_from(places).unwrap_or(i64::MAX))
    .fetch_all(&mut **tx)
    .await?;
    interleave(rows, cluster, lane)
}

/// Interleaves claims by org: the first of each, then the second of each, and so on.
fn interleave(rows: Vec<Columns>, cluster: ClusterId, lane: Lane) -> Result<Vec<Claimed>, Error> {
    let mut claimed_by_org: BTreeMap<Uuid, usize> = BTreeMap::new();
    let mut turns: Vec<(usize, Claimed)> = rows
        .into_iter()
        .map(|row| {
            let turn = claimed_by_org.entry(row.org_id).or_default();
            *turn = turn.saturating_add(1);
            let claimed = Claimed {
                unit: unit(&row.subject_kind, row.subject_id)?,
                org: OrgId::from_uuid(row.org_id),
                cluster,
                lane,
                seq: row.requested_seq,
                attempts: row.attempts,
                poison: row.poison,
                fresh: row.fresh,
                trace: row.trace,
            };
            Ok((*turn, claimed))
        })
        .collect::<Result<_, Error>>()?;
    turns.sort_by_key(|(turn, _)| *turn);
    Ok(turns.into_iter().map(|(_, claimed)| claimed).collect())
}
