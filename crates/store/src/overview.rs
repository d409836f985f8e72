//! The state of an org at a glance: counts of services, what needs a person, drift, work, and the seal.
//!
//! A fixed number of statements, whatever the size of the org. Counting reads the status of every
//! service once; the details are read of at most ten.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{FromRow, Row};
use trueup_model::id::{ConflictId, DivergenceId, OrgId, ServiceId};
use trueup_model::money::Money;
use trueup_model::status::{Health, Phase, Reconciliation};
use trueup_rules::preview::cost;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{maybe_time, read, read_json, time};
use crate::service::shown;
use crate::sold::money;
use crate::{App, Error};

/// How many things that need a person are listed.
const LISTED: i64 = 10;

/// How many services are shown alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceCount {
    /// Whether they have converged.
    pub reconciliation: Reconciliation,
    /// Their health.
    pub health: Health,
    /// Their phase.
    pub phase: Phase,
    /// How many.
    pub count: i64,
}

/// Why something needs a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeedCause {
    /// The service is blocked.
    Blocked,
    /// Two writers fight over a field.
    Conflict(ConflictId),
    /// No pod of the service is ready, and the cause is known.
    Failing,
    /// A value waits for approval.
    Proposal(DivergenceId),
}

/// Something that needs a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// Why.
    pub cause: NeedCause,
    /// The service; none for an object of a project itself.
    pub service: Option<ServiceId>,
    /// Its name.
    pub service_name: Option<String>,
    /// The name of the project.
    pub project_name: String,
    /// Since when.
    pub since: Timestamp,
    /// What happened, and what to do.
    pub message: String,
    /// What it costs per hour, if that is known.
    pub hourly: Option<Money>,
}

/// The state of an org at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// The services that are not deleted.
    pub services: Vec<ServiceCount>,
    /// What needs a person, the worst first: at most ten.
    pub needs: Vec<Need>,
    /// The number of open conflicts.
    pub conflicts: i64,
    /// The number of proposals that wait.
    pub proposals: i64,
    /// The number of open divergences.
    pub divergences: i64,
    /// What they cost per hour, by currency.
    pub drift_hourly: Vec<Money>,
    /// Wakes that wait.
    pub queued: i64,
    /// Wakes in progress.
    pub running: i64,
    /// Wakes that failed too often.
    pub dead: i64,
    /// Since when the oldest wake waits.
    pub waits_since: Option<Timestamp>,
    /// Events without a position yet.
    pub unsealed: i64,
    /// When the oldest of them happened.
    pub unsealed_since: Option<Timestamp>,
}

impl App {
    /// The state of an org at a glance.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn overview(&self, org: OrgId, now: Timestamp) -> Result<Overview, Error> {
        let mut tx = self.begin(org).await?;
        let services = counts(&mut tx, now).await?;
        let needs = needs(&mut tx, now).await?;
        let sums = sqlx::query(SUMS).bind(sql(now)).fetch_one(&mut *tx).await?;
        let hourly: Json<Vec<(String, i64)>> = sums.try_get("drift_hourly")?;
        let amount = |(currency, micros): (String, i64)| {
            Ok(Money { micros, currency: read("currency", currency)? })
        };
        Ok(Overview {
            services,
            needs,
            conflicts: sums.try_get("conflicts")?,
            proposals: sums.try_get("proposals")?,
            divergences: sums.try_get("divergences")?,
            drift_hourly: hourly.0.into_iter().map(amount).collect::<Result<_, Error>>()?,
            queued: sums.try_get("queued")?,
            running: sums.try_get("running")?,
            dead: sums.try_get("dead")?,
            waits_since: maybe_time(&sums, "waits_since")?,
            unsealed: sums.try_get("unsealed")?,
            unsealed_since: maybe_time(&sums, "unsealed_since")?,
        })
    }
}

async fn counts(tx: &mut Tx, now: Timestamp) -> Result<Vec<ServiceCount>, Error> {
    #[derive(FromRow)]
    struct Columns {
        reconciliation: String,
        health: String,
        phase: String,
        count: i64,
    }
    let mut query = shown::with_heard(now);
    query.push(format!(
        "select {} as reconciliation, {} as health, t.phase, count(*) as count
         from services s join statuses t on t.subject_kind = 'service' and t.subject_id = s.id {}
         where s.org_id = trueup_org() and s.deleted_at is null group by 1, 2, 3 order by 1, 2, 3",
        shown::reconciliation(),
        shown::health(),
        shown::JOIN,
    ));
    let rows: Vec<Columns> = query.build_query_as().fetch_all(&mut **tx).await?;
    let count = |row: Columns| {
        Ok(ServiceCount {
            reconciliation: read("reconciliation", row.reconciliation)?,
            health: read("health", row.health)?,
            phase: read("phase", row.phase)?,
            count: row.count,
        })
    };
    rows.into_iter().map(count).collect()
}

/// Everything that is one number per org. A conflict of something deleted is not open.
const SUMS: &str = "select
    (select count(*) from conflicts c join projects p on p.id = c.project_id
         left join services s on c.subject_kind = 'service' and s.id = c.subject_id
     where c.org_id = trueup_org() and c.settled_at is null and s.deleted_at is null
         and p.deleted_at is null) as conflicts,
    d.proposals, d.divergences, d.drift_hourly, w.queued, w.running, w.dead, w.waits_since,
    e.unsealed, e.unsealed_since
 from (select coalesce(sum(proposals), 0)::bigint as proposals, coalesce(sum(many), 0)::bigint as divergences,
           coalesce(jsonb_agg(jsonb_build_array(currency, micros) order by currency)
               filter (where currency is not null), '[]') as drift_hourly
       from (select currency, count(*) as many, sum(hourly_micros)::bigint as micros,
                 count(*) filter (where state = 'proposed') as proposals
             from divergences where org_id = trueup_org() and ended_at is null group by currency) by_currency) d
 cross join (select count(*) filter (where state = 'queued' and due_at <= $1) as queued,
           count(*) filter (where state = 'running') as running,
           count(*) filter (where state = 'dead') as dead,
           min(due_at) filter (where state = 'queued' and due_at <= $1) as waits_since
       from wakes where org_id = trueup_org()) w
 cross join (select count(*) as unsealed, min(v.at) as unsealed_since
       from event_queue q join events v on v.id = q.event_id where q.org_id = trueup_org()) e";

/// What needs a person: services first by how bad it is, then by how long it lasts.
async fn needs(tx: &mut Tx, now: Timestamp) -> Result<Vec<Need>, Error> {
    let services = |rank: u8, cause: &str, condition: &str| {
        format!(
            "(select {rank} as rank, '{cause}' as cause, null::uuid as record_id, s.id as service_id,
                 s.name as service_name, p.name as project_name, (t.status ->> 'since')::timestamptz as since,
                 coalesce(t.status -> 'conditions' -> 0 ->> 'message', '') as message, s.spec, s.desired,
                 n.body as plan, null::bigint as hourly_micros, null::text as currency
              from statuses t join services s on t.subject_kind = 'service' and s.id = t.subject_id
              join projects p on p.id = s.project_id left join plans n on n.name = s.plan_name {}
              where t.org_id = trueup_org() and s.deleted_at is null and {condition}
              order by since limit {LISTED})",
            shown::JOIN
        )
    };
    let failing =
        format!("t.health = 'error' and t.phase <> 'blocked' and {} = 'error'", shown::health());
    let fields = |rank: u8, cause: &str, table: &str, since: &str, condition: &str| {
        let (micros, currency) = match cause {
            "proposal" => ("r.hourly_micros", "r.currency"),
            _ => ("null::bigint", "null::text"),
        };
        format!(
            "(select {rank}, '{cause}', r.id, s.id, s.name, p.name, r.{since},
                 r.kind || '/' || r.name || ' ' || r.field || coalesce(' by ' || r.manager, ''),
                 null::jsonb, null::text, null::jsonb, {micros}, {currency}
              from {table} r join projects p on p.id = r.project_id
              left join services s on r.subject_kind = 'service' and s.id = r.subject_id
              where r.org_id = trueup_org() and {condition} and s.deleted_at is null and p.deleted_at is null
              order by r.{since} limit {LISTED})"
        )
    };
    let arms = [
        services(0, "blocked", "t.phase = 'blocked'"),
        fields(1, "conflict", "conflicts", "raised_at", "r.settled_at is null"),
        services(2, "failing", &failing),
        fields(
            3,
            "proposal",
            "divergences",
            "first_seen_at",
            "r.ended_at is null and r.state = 'proposed'",
        ),
    ];
    let mut query = shown::with_heard(now);
    query.push(arms.join(" union all ")).push(" order by rank, since limit ").push_bind(LISTED);
    let rows = query.build().fetch_all(&mut **tx).await?;
    rows.iter().map(need).collect()
}

fn need(row: &PgRow) -> Result<Need, Error> {
    let record: Option<Uuid> = row.try_get("record_id")?;
    let record = record.unwrap_or_default();
    let cause = match row.try_get("cause")? {
        "blocked" => NeedCause::Blocked,
        "conflict" => NeedCause::Conflict(ConflictId::from_uuid(record)),
        "failing" => NeedCause::Failing,
        _ => NeedCause::Proposal(DivergenceId::from_uuid(record)),
    };
    let service: Option<Uuid> = row.try_get("service_id")?;
    Ok(Need {
        cause,
        service: service.map(ServiceId::from_uuid),
        service_name: row.try_get("service_name")?,
        project_name: row.try_get("project_name")?,
        since: time(row, "since")?,
        message: row.try_get("message")?,
        hourly: hourly(row)?,
    })
}

/// The price of the service, or the cost of the divergence.
fn hourly(row: &PgRow) -> Result<Option<Money>, Error> {
    let plan: Option<Json<Value>> = row.try_get("plan")?;
    let Some(plan) = plan else {
        return money(row.try_get("hourly_micros")?, row.try_get("currency")?);
    };
    let spec = read_json("spec", row.try_get("spec")?)?;
    let desired = read("desired state", row.try_get("desired")?)?;
    Ok(Some(cost::hourly(&spec, desired, &read_json("plan", plan)?)))
}
