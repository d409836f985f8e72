//! Computes where the capacity of a cluster went, day by day, from stored usage.
//!
//! A day is computed again while it is not complete, and when usage in it was recorded or corrected.
//! So late evidence reaches old days, and a round in which nothing changed computes today only.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json as object};
use sqlx::Row;
use trueup_model::id::ClusterId;
use trueup_model::org::PLATFORM;
use trueup_model::plan::Plan;
use trueup_model::price::PriceVersion;
use trueup_model::usage::{Gap, Source, Span, UsageInterval, UsageRecord};
use trueup_rules::usage::capacity::{self, ListPrices, METERS};
use trueup_rules::usage::{Nodes, Watermarks, as_of};

use super::meter::input::Inputs;
use crate::capacity::days_of;
use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{json, read_json};
use crate::usage::{self, COLUMNS, watermarks};
use crate::work::lease::{Lease, fence};
use crate::{Error, Worker, plan, price};

const DAY: SignedDuration = SignedDuration::from_hours(24);
/// How many days are computed in one round, so that a first round after an upgrade is bounded.
const ROUND: i64 = 31;
/// How many days are checked.
const CHECKED: i32 = 62;

/// What a round found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapacityCheck {
    /// How many days were computed.
    pub computed: usize,
    /// The days on which more was used than existed, newest first.
    pub broken: Vec<String>,
}

/// What a day is computed from.
struct DayInputs<'a> {
    nodes: &'a Nodes,
    prices: &'a [PriceVersion],
    plans: &'a [Plan],
    heard: &'a Watermarks,
    known: Timestamp,
}

impl Worker {
    /// Computes the days of a cluster that may have changed, and checks all recent ones.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease was lost.
    pub async fn balance_capacity(
        &self,
        lease: Lease,
        now: Timestamp,
    ) -> Result<CapacityCheck, Error> {
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        let cluster = lease.scope;
        let heard = watermarks(&mut *tx, Some(cluster)).await?;
        let heard = heard.into_values().next().unwrap_or_default();
        let contacts = [heard.get(&Source::Pods), heard.get(&Source::Nodes)];
        let known = contacts.into_iter().collect::<Option<Vec<_>>>();
        let known = known.and_then(|all| all.into_iter().map(|contact| contact.seen_at).min());
        let Some(known) = known else { return Ok(CapacityCheck::default()) };
        let days = changed_days(&mut tx, cluster, known).await?;
        if !days.is_empty() {
            let inputs = DayInputs {
                nodes: &Inputs::nodes(&mut tx, cluster).await?,
                prices: &price::for_org(&mut tx, PLATFORM).await?,
                plans: &plan::all(&mut tx).await?,
                heard: &heard,
                known,
            };
            for day in &days {
                compute(&mut tx, cluster, *day, &inputs, now).await?;
            }
        }
        let recent = days_of(&mut tx, Some(cluster), CHECKED).await?;
        tx.commit().await?;
        let broken = recent.into_iter().filter(|day| !day.holds()).map(|day| day.day).collect();
        Ok(CapacityCheck { computed: days.len(), broken })
    }
}

/// The beginnings of the days that are new, not complete, or have usage that changed.
async fn changed_days(
    tx: &mut Tx,
    cluster: ClusterId,
    known: Timestamp,
) -> Result<Vec<Timestamp>, Error> {
    let rows: Vec<(jiff_sqlx::Timestamp,)> = sqlx::query_as(
        "with former as (
             select max(computed_at) as at,
                    max(day)::timestamp at time zone 'UTC' as newest from capacity_days where cluster_id = $1),
         changed as (
             select date_trunc('day', u.starts_at, 'UTC') as first,
                    least(case when u.growing then $2 else u.ends_at end, $2) as last
             from usage_intervals u, former f
             where u.cluster_id = $1 and u.source = 'pods'
               and (f.at is null or greatest(u.recorded_at, u.superseded_at) >= f.at)),
         days as (
             select distinct generate_series(first, last, interval '24 hours') as day from changed
             union select generate_series(f.newest, $2, interval '24 hours') from former f where f.newest is not null)
         select day from days where day < $2 order by day desc limit $3",
    )
    .bind(cluster.uuid())
    .bind(sql(known))
    .bind(ROUND)
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|(day,)| day.to_jiff()).collect())
}

async fn compute(
    tx: &mut Tx,
    cluster: ClusterId,
    day: Timestamp,
    inputs: &DayInputs<'_>,
    now: Timestamp,
) -> Result<(), Error> {
    let midnight = day.saturating_add(DAY).unwrap_or(day);
    let Some(span) = Span::new(day, midnight.min(inputs.known)) else { return Ok(()) };
    let records = records(tx, cluster, span).await?;
    let gaps = gaps(tx, cluster, span).await?;
    let all = records.iter().flat_map(UsageRecord::intervals);
    let intervals: Vec<UsageInterval> =
        all.filter_map(|interval| as_of(interval, inputs.heard)).collect();
    let day = day.strftime("%Y-%m-%d").to_string();
    let rows: Vec<Value> = METERS
        .into_iter()
        .map(|meter| {
            let balance = capacity::balance(meter, span, inputs.nodes, &intervals, &gaps);
            object!({
                "cluster_id": cluster.uuid(),
                "day": day,
                "meter": meter,
                "capacity": balance.capacity.to_string(),
                "delivered": balance.delivered.to_string(),
                "under_delivered": balance.under_delivered.to_string(),
                "orphan": balance.orphan.to_string(),
                "gap": balance.gap.to_string(),
                "known_until": span.until,
                "computed_at": now,
            })
        })
        .collect();
    sqlx::query(
        "insert into capacity_days select * from jsonb_populate_recordset(null::capacity_days, $1)
         on conflict (cluster_id, day, meter) do update
             set capacity = excluded.capacity, delivered = excluded.delivered,
                 under_delivered = excluded.under_delivered, orphan = excluded.orphan, gap = excluded.gap,
                 known_until = excluded.known_until, computed_at = excluded.computed_at",
    )
    .bind(json(&rows))
    .execute(&mut **tx)
    .await?;
    // A record that grows is as long as its intervals.
    let records: Vec<UsageRecord> = UsageRecord::of(&intervals);
    let prices = ListPrices { versions: inputs.prices, plans: inputs.plans };
    let costs: Vec<Value> = capacity::unsold(span, &prices, &records, &gaps)
        .into_iter()
        .map(|((why, currency), micros)| {
            object!({"cluster_id": cluster.uuid(), "day": day, "why": why.to_string(),
                     "currency": currency, "micros": micros})
        })
        .collect();
    sqlx::query("delete from capacity_costs where cluster_id = $1 and day = $2::date")
        .bind(cluster.uuid())
        .bind(&day)
        .execute(&mut **tx)
        .await?;
    sqlx::query("insert into capacity_costs select * from jsonb_populate_recordset(null::capacity_costs, $1)")
        .bind(json(&costs))
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// The usage of all orgs in a cluster that touches a span.
async fn records(tx: &mut Tx, cluster: ClusterId, span: Span) -> Result<Vec<UsageRecord>, Error> {
    let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
        "select {COLUMNS} from usage_intervals
         where cluster_id = $1 and superseded_at is null and starts_at < $3 and (growing or ends_at > $2)"
    )))
    .bind(cluster.uuid())
    .bind(sql(span.from))
    .bind(sql(span.until))
    .fetch_all(&mut **tx)
    .await?;
    rows.iter().map(|row| Ok(usage::record(row)?.1)).collect()
}

async fn gaps(tx: &mut Tx, cluster: ClusterId, span: Span) -> Result<Vec<Gap>, Error> {
    let rows = sqlx::query(
        "select gap from usage_gaps
         where cluster_id = $1 and superseded_at is null and starts_at < $3 and ends_at > $2",
    )
    .bind(cluster.uuid())
    .bind(sql(span.from))
    .bind(sql(span.until))
    .fetch_all(&mut **tx)
    .await?;
    rows.iter().map(|row| read_json("usage gap", row.try_get("gap")?)).collect()
}
