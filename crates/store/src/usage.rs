//! Usage: reading the stored records, as far as their sources were heard.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use sqlx::Row;
use sqlx::postgres::{PgExecutor, PgRow};
use trueup_model::id::{ClusterId, IntervalId, OrgId, ProjectId, ServiceId};
use trueup_model::usage::{
    Evidence, Flags, Gap, Owner, Provenance, Span, UsageInterval, UsageRecord,
};
use trueup_rules::usage::{Watermarks, as_of};
use uuid::Uuid;

use crate::Error;
use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{read, read_json, time};

/// The columns of a record.
pub(crate) const COLUMNS: &str = "id, org_id, project_id, service_id, cluster_id, object, source, plan, quantities,
     starts_at, ends_at, open, growing, delivery, basis, simulated, first_evidence, last_evidence, late, skewed";

/// The usage of an org, and what is not known about it.
#[derive(Debug, Clone, Default)]
pub struct OrgUsage {
    /// The intervals that touch the span.
    pub intervals: Vec<UsageInterval>,
    /// The gaps that touch it.
    pub gaps: Vec<Gap>,
    /// How far the sources of every cluster with usage of the org were heard; none without usage.
    pub heard_until: Option<Timestamp>,
}

/// How far the sources of each cluster were heard.
pub(crate) type Heard = BTreeMap<ClusterId, Watermarks>;

/// The usage of an org in a span, as far as the sources were heard.
pub(crate) async fn of_org(
    tx: &mut Tx,
    org: OrgId,
    span: Span,
    heard: &Heard,
) -> Result<OrgUsage, Error> {
    let records = records(tx, org, span).await?;
    let mut usage = OrgUsage { gaps: gaps(tx, org, span).await?, ..OrgUsage::default() };
    let none = Watermarks::new();
    for (cluster, record) in &records {
        let heard = heard.get(cluster).unwrap_or(&none);
        usage.intervals.extend(record.intervals().filter_map(|interval| as_of(interval, heard)));
        let newest = heard.values().map(|contact| contact.seen_at).min();
        usage.heard_until = match (usage.heard_until, newest) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
    Ok(usage)
}

async fn records(
    tx: &mut Tx,
    org: OrgId,
    span: Span,
) -> Result<Vec<(ClusterId, UsageRecord)>, Error> {
    let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
        "select {COLUMNS} from usage_intervals
         where org_id = $1 and superseded_at is null and starts_at < $3 and (growing or ends_at > $2)
         order by object, source, starts_at"
    )))
    .bind(org.uuid())
    .bind(sql(span.from))
    .bind(sql(span.until))
    .fetch_all(&mut **tx)
    .await?;
    let read = |row: &PgRow| {
        let cluster = ClusterId::from_uuid(row.try_get("cluster_id")?);
        Ok((cluster, record(row)?.1))
    };
    rows.iter().map(read).collect()
}

async fn gaps(tx: &mut Tx, org: OrgId, span: Span) -> Result<Vec<Gap>, Error> {
    let rows: Vec<(sqlx::types::Json<Value>,)> = sqlx::query_as(
        "select gap from usage_gaps
         where org_id = $1 and superseded_at is null and starts_at < $3 and ends_at > $2
         order by object, source",
    )
    .bind(org.uuid())
    .bind(sql(span.from))
    .bind(sql(span.until))
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter().map(|(gap,)| read_json("usage gap", gap)).collect()
}

/// How far the sources of clusters were heard and recorded.
pub(crate) async fn watermarks(
    executor: impl PgExecutor<'_>,
    cluster: Option<ClusterId>,
) -> Result<Heard, Error> {
    let rows = sqlx::query(
        "select cluster_id, source, seen_at, observer, epoch from usage_watermarks
         where $1::uuid is null or cluster_id = $1",
    )
    .bind(cluster.map(ClusterId::uuid))
    .fetch_all(executor)
    .await?;
    let mut clusters = Heard::new();
    for row in &rows {
        let contact = Evidence {
            seen_at: time(row, "seen_at")?,
            epoch: row.try_get("epoch")?,
            observer: row.try_get("observer")?,
            transition: None,
        };
        let cluster = ClusterId::from_uuid(row.try_get("cluster_id")?);
        let source = read("source", row.try_get("source")?)?;
        clusters.entry(cluster).or_default().insert(source, contact);
    }
    Ok(clusters)
}

/// Reads a record from its columns.
pub(crate) fn record(row: &PgRow) -> Result<(IntervalId, UsageRecord), Error> {
    let id = |column: &str| row.try_get::<Option<Uuid>, _>(column);
    let plan: Option<String> = row.try_get("plan")?;
    let record = UsageRecord {
        owner: Owner {
            org: OrgId::from_uuid(row.try_get("org_id")?),
            project: id("project_id")?.map(ProjectId::from_uuid),
            service: id("service_id")?.map(ServiceId::from_uuid),
        },
        object: row.try_get("object")?,
        source: read("source", row.try_get("source")?)?,
        plan: plan.map(|plan| read("plan", plan)).transpose()?,
        quantities: read_json("quantities", row.try_get("quantities")?)?,
        span: Span { from: time(row, "starts_at")?, until: time(row, "ends_at")? },
        open: row.try_get("open")?,
        growing: row.try_get("growing")?,
        delivery: read("delivery", row.try_get("delivery")?)?,
        basis: read("basis", row.try_get("basis")?)?,
        simulated: row.try_get("simulated")?,
        provenance: Provenance {
            first: read_json("evidence", row.try_get("first_evidence")?)?,
            last: read_json("evidence", row.try_get("last_evidence")?)?,
        },
        flags: Flags { late: row.try_get("late")?, skewed: row.try_get("skewed")? },
    };
    Ok((IntervalId::from_uuid(row.try_get("id")?), record))
}

/// A record as a row, by the names of the columns.
pub(crate) fn row(
    id: IntervalId,
    cluster: ClusterId,
    record: &UsageRecord,
    now: Timestamp,
) -> Value {
    json!({
        "id": id.uuid(),
        "org_id": record.owner.org.uuid(),
        "project_id": record.owner.project.map(ProjectId::uuid),
        "service_id": record.owner.service.map(ServiceId::uuid),
        "cluster_id": cluster.uuid(),
        "object": record.object,
        "source": record.source,
        "plan": record.plan,
        "quantities": record.quantities,
        "starts_at": record.span.from,
        "ends_at": record.span.until,
        "open": record.open,
        "growing": record.growing,
        "delivery": record.delivery,
        "basis": record.basis,
        "simulated": record.simulated,
        "first_evidence": record.provenance.first,
        "last_evidence": record.provenance.last,
        "late": record.flags.late,
        "skewed": record.flags.skewed,
        "recorded_at": now,
    })
}
