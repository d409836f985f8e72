//! Budgets: what an org has spent in this billing period, and what its services still hold of it.
//!
//! A service holds what it will cost until the end of the period: its price per hour as it was
//! accepted, times the hours since usage was last posted. Every change of an org's services locks the
//! row of its quota, so that of two requests for the last of a budget the second sees the first.

use jiff::{SignedDuration, Timestamp};
use sqlx::Row;
use sqlx::postgres::PgRow;
use trueup_model::billing::{BillingAccount, BillingSettings};
use trueup_model::budget::{AtLimit, Budget};
use trueup_model::event::{BudgetReached, Fact, Source};
use trueup_model::id::{OrgId, ProjectId, ServiceId};
use trueup_model::money::Currency;
use trueup_model::order::Unit;
use trueup_model::spec::Spec;
use trueup_model::subject::Subject;
use trueup_model::usage::Span;
use trueup_rules::preview::cost;
use trueup_rules::rate::period::month;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{maybe_time, read, read_json, time};
use crate::{App, Error, billing, event, plan, project};

/// Seconds of an hour.
const HOUR: i128 = 3600;

/// Whose budget it is: a project's, or that of the whole org.
pub(crate) type Scope = Option<ProjectId>;

impl App {
    /// The budget of a project, if it has one; `None` if there is no such project.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_project_budget(
        &self,
        org: OrgId,
        wanted: &str,
        settings: &BillingSettings,
        now: Timestamp,
    ) -> Result<Option<Option<Budget>>, Error> {
        let mut tx = self.begin(org).await?;
        let Some(found) = project::find(&mut tx, wanted).await? else { return Ok(None) };
        let account = billing::account(&mut tx, org, settings.currency).await?;
        load(&mut tx, (org, Some(found.project.id)), &account, now).await.map(Some)
    }

    /// The budget of an org; none if it has none.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_budget(
        &self,
        org: OrgId,
        settings: &BillingSettings,
        now: Timestamp,
    ) -> Result<Option<Budget>, Error> {
        let mut tx = self.begin(org).await?;
        let account = billing::account(&mut tx, org, settings.currency).await?;
        load(&mut tx, (org, None), &account, now).await
    }
}

/// The billing period around a moment.
pub(crate) fn period(account: &BillingAccount, now: Timestamp) -> Span {
    month(&account.zone(), now).unwrap_or(Span { from: now, until: now })
}

/// A budget as it stands now.
pub(crate) async fn load(
    tx: &mut Tx,
    (org, scope): (OrgId, Scope),
    account: &BillingAccount,
    now: Timestamp,
) -> Result<Option<Budget>, Error> {
    let row = sqlx::query(
        "select b.limit_micros, b.currency, b.at_limit, b.period_from, b.spent_micros, h.accrued_at,
                (select coalesce(sum(r.hourly_micros), 0)::bigint
                 from reservations r
                 where r.org_id = $1 and ($2::uuid is null or exists (
                     select from services s where s.id = r.service_id and s.project_id = $2))) as hourly
         from budgets b left join ledger_heads h on h.org_id = b.org_id
         where b.org_id = $1 and b.project_id is not distinct from $2 and b.limit_micros is not null",
    )
    .bind(org.uuid())
    .bind(scope.map(ProjectId::uuid))
    .fetch_optional(&mut **tx)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let period = period(account, now);
    let is_current = time(&row, "period_from")? == period.from;
    let posted = maybe_time(&row, "accrued_at")?.filter(|posted| *posted > period.from);
    let hourly: i64 = row.try_get("hourly")?;
    Ok(Some(Budget {
        limit_micros: row.try_get("limit_micros")?,
        currency: read("currency", row.try_get("currency")?)?,
        at_limit: read("at_limit", row.try_get("at_limit")?)?,
        spent_micros: if is_current { row.try_get("spent_micros")? } else { 0 },
        held_micros: held(hourly, period.until.duration_since(posted.unwrap_or(now).min(now))),
    }))
}

/// What something at this price per hour costs in a time, rounded up.
pub(crate) fn held(hourly_micros: i64, during: SignedDuration) -> i64 {
    let seconds = i128::from(during.as_secs().max(0));
    let micros = i128::from(hourly_micros).saturating_mul(seconds).saturating_add(HOUR - 1);
    i64::try_from(micros.checked_div(HOUR).unwrap_or(0)).unwrap_or(i64::MAX)
}

/// Stores what a service costs per hour; returns how much more that is than before.
pub(crate) async fn price_service(
    tx: &mut Tx,
    service: ServiceId,
    hourly_micros: i64,
) -> Result<i64, Error> {
    let (before,): (i64,) = sqlx::query_as(
        "update reservations r set hourly_micros = $2 from reservations old
         where r.service_id = $1 and old.service_id = r.service_id returning old.hourly_micros",
    )
    .bind(service.uuid())
    .bind(hourly_micros)
    .fetch_optional(&mut **tx)
    .await?
    .unwrap_or((hourly_micros,));
    Ok(hourly_micros.saturating_sub(before))
}

/// Stores what every accepted service of an org costs per hour, also of those that were accepted before
/// prices were stored, so that all of them count for its budget.
pub(crate) async fn price_services(
    tx: &mut Tx,
    org: OrgId,
    currency: Currency,
) -> Result<(), Error> {
    let rows = sqlx::query(
        "select s.id, s.spec, s.desired, n.body, n.retired
         from services s join plans n on n.name = s.plan_name
         join reservations r on r.service_id = s.id
         where s.org_id = $1 and s.desired <> 'deleted' order by s.id",
    )
    .bind(org.uuid())
    .fetch_all(&mut **tx)
    .await?;
    let (mut services, mut prices): (Vec<Uuid>, Vec<i64>) = (Vec::new(), Vec::new());
    for row in &rows {
        let plan = plan::plan((row.try_get("body")?, row.try_get("retired")?))?;
        let spec: Spec = read_json("spec", row.try_get("spec")?)?;
        let hourly = cost::hourly(&spec, read("desired state", row.try_get("desired")?)?, &plan);
        if hourly.currency == currency {
            services.push(row.try_get("id")?);
            prices.push(hourly.micros);
        }
    }
    sqlx::query(
        "update reservations r set hourly_micros = p.micros
         from unnest($1::uuid[], $2::bigint[]) as p (service_id, micros)
         where r.service_id = p.service_id and r.hourly_micros <> p.micros",
    )
    .bind(services)
    .bind(prices)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// What an org, or one of its projects, was charged in a period so far, by the ledger.
///
/// The org owes whole cents; a project's part is the value of what its services used.
pub(crate) async fn spent(
    tx: &mut Tx,
    (org, scope): (OrgId, Scope),
    period: Span,
) -> Result<i64, Error> {
    let (micros,): (i64,) = sqlx::query_as(
        "select coalesce(sum(case when $3::uuid is null then p.micros else -p.micros end), 0)::bigint
         from ledger_entries e join ledger_postings p on p.org_id = e.org_id and p.seq = e.seq
         where e.org_id = $1 and e.kind = 'usage' and e.period_from = $2
           and e.line ->> 'class' = 'charged'
           and case when $3::uuid is null then p.account like 'receivable:%'
                    else p.account like 'revenue:%'
                     and p.service_id in (select id from services where project_id = $3) end",
    )
    .bind(org.uuid())
    .bind(sql(period.from))
    .bind(scope.map(ProjectId::uuid))
    .fetch_one(&mut **tx)
    .await?;
    Ok(micros)
}

/// The budgets that a change of a project's services is held against, with their currencies.
pub(crate) async fn over(
    tx: &mut Tx,
    org: OrgId,
    project: ProjectId,
) -> Result<Vec<(Scope, Currency)>, Error> {
    let found: Vec<(Option<Uuid>, String)> = sqlx::query_as(
        "select project_id, currency from budgets
         where org_id = $1 and limit_micros is not null and (project_id is null or project_id = $2)
         order by project_id nulls first",
    )
    .bind(org.uuid())
    .bind(project.uuid())
    .fetch_all(&mut **tx)
    .await?;
    let read = |(project, currency): (Option<Uuid>, String)| {
        Ok((project.map(ProjectId::from_uuid), read("currency", currency)?))
    };
    found.into_iter().map(read).collect()
}

/// Notes what an org and its projects have spent in a period, with an event for each threshold that
/// was reached; returns whose services are to be paused.
pub(crate) async fn note_spending(
    tx: &mut Tx,
    org: OrgId,
    period: Span,
    now: Timestamp,
) -> Result<Vec<Scope>, Error> {
    let rows = sqlx::query(
        "select project_id, limit_micros, currency, at_limit, period_from, spent_micros, reached from budgets
         where org_id = $1 and limit_micros is not null order by project_id nulls first for update",
    )
    .bind(org.uuid())
    .fetch_all(&mut **tx)
    .await?;
    let mut paused = Vec::new();
    for row in &rows {
        let project: Option<Uuid> = row.try_get("project_id")?;
        let scope = project.map(ProjectId::from_uuid);
        if note(tx, (org, scope), row, period, now).await? {
            paused.push(scope);
        }
    }
    Ok(paused)
}

/// Notes what was spent of one budget; returns whether services are to be paused.
async fn note(
    tx: &mut Tx,
    (org, scope): (OrgId, Scope),
    row: &PgRow,
    period: Span,
    now: Timestamp,
) -> Result<bool, Error> {
    let is_current = time(row, "period_from")? == period.from;
    let (before, noted): (i32, i64) =
        if is_current { (row.try_get("reached")?, row.try_get("spent_micros")?) } else { (0, 0) };
    let budget = Budget {
        limit_micros: row.try_get("limit_micros")?,
        currency: read("currency", row.try_get("currency")?)?,
        at_limit: read("at_limit", row.try_get("at_limit")?)?,
        spent_micros: spent(tx, (org, scope), period).await?,
        held_micros: 0,
    };
    let reached = budget.reached();
    if !is_current || noted != budget.spent_micros || reached != before {
        sqlx::query(
            "update budgets set period_from = $3, spent_micros = $4, reached = $5
             where org_id = $1 and project_id is not distinct from $2",
        )
        .bind(org.uuid())
        .bind(scope.map(ProjectId::uuid))
        .bind(sql(period.from))
        .bind(budget.spent_micros)
        .bind(reached)
        .execute(&mut **tx)
        .await?;
    }
    if reached > before {
        let fact = Fact::BudgetReached(BudgetReached {
            percent: reached,
            spent_micros: budget.spent_micros,
            limit_micros: budget.limit_micros,
            currency: budget.currency,
        });
        let subject = scope.map_or(Subject::Org(org), |project| Unit::Project(project).into());
        let event = event::about(org, subject, 0, fact, Source::Billing, now);
        event::record(tx, &[event]).await?;
    }
    Ok(budget.at_limit == AtLimit::Pause && reached >= 100)
}
