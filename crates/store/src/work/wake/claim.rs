//! Claiming: lanes take turns by weight, and inside a lane one org after the other, so that nobody's
//! backlog is at the cost of others. Every statement reads as many index entries as it claims.

use std::collections::BTreeMap;

use jiff::Timestamp;
use trueup_model::id::{ClusterId, OrgId};
use trueup_model::wake::{Claimed, Lane};
use trueup_rules::fair_queue::Turns;
use uuid::Uuid;

use crate::Error;
use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{read, unit};

/// Claims up to so many wakes of a cluster that are due.
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

/// The lanes in which something is due. The first entry of each is asked for in the order of the index: as
/// a mere existence the planner would rather read the whole table once.
async fn waiting(tx: &mut Tx, cluster: ClusterId, now: Timestamp) -> Result<Vec<Lane>, Error> {
    let rows: Vec<(String,)> = sqlx::query_as(
        "select l.lane from unnest($3::text[]) as l (lane) cross join lateral
             (select from wakes w where w.cluster_id = $1 and w.lane = l.lane and w.state = 'queued'
                and w.due_at <= $2
              order by w.org_id limit 1) first",
    )
    .bind(cluster.uuid())
    .bind(sql(now))
    .bind(Lane::ALL.map(Lane::as_str).to_vec())
    .fetch_all(&mut **tx)
    .await?;
    let due: Vec<Lane> =
        rows.into_iter().map(|(lane,)| read("lane", lane)).collect::<Result<_, _>>()?;
    Ok(Lane::ALL.into_iter().filter(|lane| due.contains(lane)).collect())
}

/// The orgs whose turn it is: those after the last one, and then from the beginning.
async fn next_orgs(
    tx: &mut Tx,
    cluster: ClusterId,
    lane: Lane,
    last: OrgId,
    places: usize,
    now: Timestamp,
) -> Result<Vec<Uuid>, Error> {
    // A walk from org to org along the index: it never visits the second wake of any of them.
    let rows: Vec<(Uuid,)> = sqlx::query_as(
        "with recursive later (org_id) as (
             (select org_id from wakes
              where cluster_id = $1 and lane = $2 and state = 'queued' and due_at <= $3 and org_id > $4
              order by org_id limit 1)
             union all
             select n.org_id from later l cross join lateral
                 (select org_id from wakes
                  where cluster_id = $1 and lane = $2 and state = 'queued' and due_at <= $3
                    and org_id > l.org_id
                  order by org_id limit 1) n),
         earlier (org_id) as (
             (select org_id from wakes
              where cluster_id = $1 and lane = $2 and state = 'queued' and due_at <= $3
              order by org_id limit 1)
             union all
             select n.org_id from earlier e cross join lateral
                 (select org_id from wakes
                  where cluster_id = $1 and lane = $2 and state = 'queued' and due_at <= $3
                    and org_id > e.org_id
                  order by org_id limit 1) n)
         (select org_id from later limit $5)
         union all
         (select org_id from earlier where org_id <= $4 limit $5)
         limit $5",
    )
    .bind(cluster.uuid())
    .bind(lane.as_str())
    .bind(sql(now))
    .bind(last.uuid())
    .bind(i64::try_from(places).unwrap_or(i64::MAX))
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|(org,)| org).collect())
}

/// Unit kind and id, org, seq, attempts, poison, fresh, trace.
type Columns = (String, Uuid, Uuid, i64, i32, i32, bool, Option<String>);

/// Claims the oldest wakes of each of these orgs, as many of one as of the other.
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
             select w.unit_kind, w.unit_id from unnest($4::uuid[]) as o (id) cross join lateral
                 (select unit_kind, unit_id from wakes
                  where cluster_id = $1 and lane = $2 and org_id = o.id and state = 'queued'
                    and due_at <= $3
                  order by due_at limit $5 for update skip locked) w
             limit $6)
         update wakes w set state = 'running', claimed_seq = requested_seq
         from due where w.unit_kind = due.unit_kind and w.unit_id = due.unit_id
         returning w.unit_kind, w.unit_id, w.org_id, w.requested_seq, w.attempts, w.poison, w.fresh,
                   w.trace",
    )
    .bind(cluster.uuid())
    .bind(lane.as_str())
    .bind(sql(now))
    .bind(orgs)
    .bind(i64::try_from(each).unwrap_or(i64::MAX))
    .bind(i64::try_from(places).unwrap_or(i64::MAX))
    .fetch_all(&mut **tx)
    .await?;
    Ok(in_turn(rows, cluster, lane))
}

/// One of each org, then the second of each, and so on: whoever works them off in this order is fair.
fn in_turn(rows: Vec<Columns>, cluster: ClusterId, lane: Lane) -> Vec<Claimed> {
    let mut had: BTreeMap<Uuid, usize> = BTreeMap::new();
    let mut turns: Vec<(usize, Claimed)> = rows
        .into_iter()
        .map(|(kind, id, org, seq, attempts, poison, fresh, trace)| {
            let turn = had.entry(org).or_default();
            *turn = turn.saturating_add(1);
            let (unit, org) = (unit(&kind, id), OrgId::from_uuid(org));
            (*turn, Claimed { unit, org, cluster, lane, seq, attempts, poison, fresh, trace })
        })
        .collect();
    turns.sort_by_key(|(turn, _)| *turn);
    turns.into_iter().map(|(_, claimed)| claimed).collect()
}
