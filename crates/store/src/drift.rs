//! Divergences: reading them, and what they cost.
//!
//! They are written with the reports that show them (`work/drift.rs`) and decided through the door
//! (`door/drift.rs`).

use jiff::Timestamp;
use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Postgres, QueryBuilder, Row};
use trueup_model::drift::{Divergence, DivergenceClass, DivergenceRecord, DivergenceState};
use trueup_model::id::{ClusterId, DivergenceId, OrgId, ProjectId, ServiceId};
use trueup_model::money::Money;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{key, maybe_time, read, time, unit};
use crate::sold::money;
use crate::{App, Error};

/// The name of the principal of adoptions and rejections that follow from a policy alone.
pub(crate) const POLICY: &str = "drift policy";

/// A divergence with the names around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DivergenceRow {
    /// The divergence.
    pub record: DivergenceRecord,
    /// The name of its project.
    pub project_name: String,
    /// The name of its service; `None` for an object of the project itself.
    pub service_name: Option<String>,
    /// When the difference was gone from the cluster. It costs until then: a proposal may wait after
    /// that, and a rejected value may still be there.
    pub gone_at: Option<Timestamp>,
    /// Why Trueup itself rejected it.
    pub why: Option<String>,
}

/// Which divergences to list.
#[derive(Debug, Clone, Default)]
pub struct DivergenceFilter {
    /// Only those of this project, also of its services.
    pub project: Option<ProjectId>,
    /// Only those of this service.
    pub service: Option<ServiceId>,
    /// Only those in this state, ended or not.
    pub state: Option<DivergenceState>,
    /// Whether to list ended ones, too.
    pub ended: bool,
}

/// The divergences of one project with the same class and field manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriftSum {
    /// The name of the project.
    pub project_name: String,
    /// Their class.
    pub class: DivergenceClass,
    /// The field manager that wrote them, if the server recorded one.
    pub manager: Option<String>,
    /// How many there were.
    pub count: i64,
    /// How long they stood, added up, in seconds.
    pub seconds: i64,
    /// What they cost; `None` if none of them has a price.
    pub cost: Option<Money>,
}

/// The columns of [`record`]; the table alias is `d`.
pub(crate) const COLUMNS: &str =
    "d.id, d.org_id, d.subject_kind, d.subject_id, d.cluster_id, d.kind, d.namespace, d.name, d.field,
     d.class, d.wanted, d.live, d.manager, d.verdict, d.state, d.generation, d.first_seen_at,
     d.last_seen_at, d.gone_at, d.ended_at, d.expires_at, d.decided_by, d.decided_why, d.hourly_micros,
     d.currency";

/// The names around a divergence.
const NAMED: &str = ", p.name as project_name, s.name as service_name
     from divergences d join projects p on p.id = d.project_id
     left join services s on d.subject_kind = 'service' and s.id = d.subject_id";

impl App {
    /// A page of divergences, in the order in which they were first seen.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_divergences(
        &self,
        org: OrgId,
        filter: &DivergenceFilter,
        after: Option<DivergenceId>,
        limit: i64,
    ) -> Result<Vec<DivergenceRow>, Error> {
        let mut tx = self.begin(org).await?;
        let mut query = QueryBuilder::<Postgres>::new("select ");
        query.push(COLUMNS).push(NAMED).push(" where d.org_id = trueup_org()");
        if let Some(project) = filter.project {
            query.push(" and d.project_id = ").push_bind(project.uuid());
        }
        if let Some(service) = filter.service {
            query.push(" and d.subject_id = ").push_bind(service.uuid());
        }
        match filter.state {
            Some(state) => {
                query.push(" and d.state = ").push_bind(state.into_str());
            }
            None if filter.ended => {}
            None => {
                query.push(" and d.ended_at is null");
            }
        }
        if let Some(after) = after {
            query.push(" and d.id > ").push_bind(after.uuid());
        }
        query.push(" order by d.id limit ").push_bind(limit);
        let rows = query.build().fetch_all(&mut *tx).await?;
        rows.iter().map(divergence_row).collect()
    }

    /// A divergence by its id.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_divergence(
        &self,
        org: OrgId,
        id: DivergenceId,
    ) -> Result<Option<DivergenceRow>, Error> {
        let mut tx = self.begin(org).await?;
        find(&mut tx, id).await
    }

    /// What drift cost from one time until another, by project, class and field manager.
    ///
    /// A divergence counts for as long as it stood in that time, at its last price. One without a
    /// price is counted with those that have one.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn sum_drift(
        &self,
        org: OrgId,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<DriftSum>, Error> {
        let mut tx = self.begin(org).await?;
        let rows = sqlx::query(
            "with stood as (
                 select p.name as project, d.class, d.manager, d.hourly_micros,
                        coalesce(d.currency, max(d.currency) over (
                            partition by d.project_id, d.class, d.manager)) as currency,
                        extract(epoch from least(coalesce(d.gone_at, $2), $2)
                                           - greatest(d.first_seen_at, $1)) as seconds
                 from divergences d join projects p on p.id = d.project_id
                 where d.org_id = trueup_org() and (d.gone_at is null or d.gone_at >= $1)
                   and d.first_seen_at <= $2)
             select project, class, manager, currency, count(*) as count,
                    sum(seconds)::bigint as seconds, (sum(hourly_micros * seconds) / 3600)::bigint as micros
             from stood group by project, class, manager, currency
             order by project, class, manager, currency",
        )
        .bind(sql(since))
        .bind(sql(until))
        .fetch_all(&mut *tx)
        .await?;
        rows.iter().map(drift_sum).collect()
    }
}

/// A divergence of the org by its id.
pub(crate) async fn find(tx: &mut Tx, id: DivergenceId) -> Result<Option<DivergenceRow>, Error> {
    let statement = format!("select {COLUMNS}{NAMED} where d.id = $1");
    let row =
        sqlx::query(AssertSqlSafe(statement)).bind(id.uuid()).fetch_optional(&mut **tx).await?;
    row.as_ref().map(divergence_row).transpose()
}

/// The open divergences of a service, in field order.
pub(crate) async fn open_of(tx: &mut Tx, service: ServiceId) -> Result<Vec<Divergence>, Error> {
    let statement = format!(
        "select {COLUMNS} from divergences d
         where d.subject_kind = 'service' and d.subject_id = $1 and d.ended_at is null
         order by d.kind, d.namespace, d.name, d.field"
    );
    let rows =
        sqlx::query(AssertSqlSafe(statement)).bind(service.uuid()).fetch_all(&mut **tx).await?;
    rows.iter().map(|row| Ok(record(row)?.divergence)).collect()
}

/// Reads a divergence from a row of [`COLUMNS`].
pub(crate) fn record(row: &PgRow) -> Result<DivergenceRecord, Error> {
    let kind: String = row.try_get("subject_kind")?;
    Ok(DivergenceRecord {
        id: DivergenceId::from_uuid(row.try_get("id")?),
        org: OrgId::from_uuid(row.try_get("org_id")?),
        unit: unit(&kind, row.try_get::<Uuid, _>("subject_id")?)?,
        cluster: ClusterId::from_uuid(row.try_get("cluster_id")?),
        divergence: Divergence {
            key: key(row)?,
            field: row.try_get("field")?,
            class: read("class of a divergence", row.try_get("class")?)?,
            wanted: value(row, "wanted")?,
            live: value(row, "live")?,
            by: row.try_get("manager")?,
            verdict: read("verdict", row.try_get("verdict")?)?,
            state: read("state of a divergence", row.try_get("state")?)?,
        },
        first_seen_at: time(row, "first_seen_at")?,
        last_seen_at: time(row, "last_seen_at")?,
        ended_at: maybe_time(row, "ended_at")?,
        expires_at: maybe_time(row, "expires_at")?,
        decided_by: row.try_get("decided_by")?,
        hourly: money(row.try_get("hourly_micros")?, row.try_get("currency")?)?,
    })
}

/// A stored value; no value is stored as null.
fn value(row: &PgRow, column: &str) -> Result<Value, Error> {
    let value: Option<Json<Value>> = row.try_get(column)?;
    Ok(value.map_or(Value::Null, |Json(value)| value))
}

fn divergence_row(row: &PgRow) -> Result<DivergenceRow, Error> {
    Ok(DivergenceRow {
        record: record(row)?,
        project_name: row.try_get("project_name")?,
        service_name: row.try_get("service_name")?,
        gone_at: maybe_time(row, "gone_at")?,
        why: row.try_get("decided_why")?,
    })
}

fn drift_sum(row: &PgRow) -> Result<DriftSum, Error> {
    Ok(DriftSum {
        project_name: row.try_get("project")?,
        class: read("class of a divergence", row.try_get("class")?)?,
        manager: row.try_get("manager")?,
        count: row.try_get("count")?,
        seconds: row.try_get("seconds")?,
        cost: money(row.try_get("micros")?, row.try_get("currency")?)?,
    })
}
