//! Budgets: what an org has spent in this billing period, and what its services still hold of it.
//!
//! A service holds what it will cost until the end of the period: its price per hour as it was
//! accepted, times the hours since usage was last posted. Every change of an org's services locks the
//! row of its quota, so that of two requests for the last of a budget the second sees the first.

use jiff::{SignedDuration, Timestamp};
use sqlx::Row;
use trueup_model::billing::{BillingAccount, BillingSettings};
use trueup_model::budget::{AtLimit, Budget};
use trueup_model::event::{BudgetReached, Fact, Source};
use trueup_model::id::{OrgId, ServiceId};
use trueup_model::money::Currency;
use trueup_model::subject::Subject;
use trueup_model::usage::Span;
use trueup_rules::rate::period::month;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{maybe_time, read, time};
use crate::{App, Error, billing, event};

/// Seconds of an hour.
const HOUR: i128 = 3600;

impl App {
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
        load(&mut tx, org, &account, now).await
    }
}

/// The billing period around a moment.
pub(crate) fn period(account: &BillingAccount, now: Timestamp) -> Span {
    month(&account.zone(), now).unwrap_or(Span { from: now, until: now })
}

/// The budget of an org as it stands now.
pub(crate) async fn load(
    tx: &mut Tx,
    org: OrgId,
    account: &BillingAccount,
    now: Timestamp,
) -> Result<Option<Budget>, Error> {
    let row = sqlx::query(
        "select b.limit_micros, b.currency, b.at_limit, b.period_from, b.spent_micros, h.accrued_at,
                (select coalesce(sum(r.hourly_micros), 0)::bigint from reservations r where r.org_id = $1) as hourly
         from budgets b left join ledger_heads h on h.org_id = b.org_id
         where b.org_id = $1 and b.limit_micros is not null",
    )
    .bind(org.uuid())
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

/// What an org was charged in a period so far, by its ledger.
pub(crate) async fn spent(tx: &mut Tx, org: OrgId, period: Span) -> Result<i64, Error> {
    let (micros,): (i64,) = sqlx::query_as(
        "select coalesce(sum(p.micros), 0)::bigint
         from ledger_entries e join ledger_postings p on p.org_id = e.org_id and p.seq = e.seq
         where e.org_id = $1 and e.kind = 'usage' and e.period_from = $2 and p.account like 'receivable:%'",
    )
    .bind(org.uuid())
    .bind(sql(period.from))
    .fetch_one(&mut **tx)
    .await?;
    Ok(micros)
}

/// The currency of an org's budget, if it has one.
pub(crate) async fn currency(tx: &mut Tx, org: OrgId) -> Result<Option<Currency>, Error> {
    let found: Option<(String,)> = sqlx::query_as(
        "select currency from budgets where org_id = $1 and limit_micros is not null",
    )
    .bind(org.uuid())
    .fetch_optional(&mut **tx)
    .await?;
    found.map(|(currency,)| read("currency", currency)).transpose()
}

/// Notes what an org has spent in a period, with an event for a threshold that it reached; returns
/// whether its services are to be paused.
pub(crate) async fn note_spending(
    tx: &mut Tx,
    org: OrgId,
    period: Span,
    now: Timestamp,
) -> Result<bool, Error> {
    let row = sqlx::query(
        "select limit_micros, currency, at_limit, period_from, spent_micros, reached from budgets
         where org_id = $1 and limit_micros is not null for update",
    )
    .bind(org.uuid())
    .fetch_optional(&mut **tx)
    .await?;
    let Some(row) = row else { return Ok(false) };
    let is_current = time(&row, "period_from")? == period.from;
    let (before, noted): (i32, i64) =
        if is_current { (row.try_get("reached")?, row.try_get("spent_micros")?) } else { (0, 0) };
    let budget = Budget {
        limit_micros: row.try_get("limit_micros")?,
        currency: read("currency", row.try_get("currency")?)?,
        at_limit: read("at_limit", row.try_get("at_limit")?)?,
        spent_micros: spent(tx, org, period).await?,
        held_micros: 0,
    };
    let reached = budget.reached();
    if !is_current || noted != budget.spent_micros || reached != before {
        sqlx::query(
            "update budgets set period_from = $2, spent_micros = $3, reached = $4 where org_id = $1",
        )
        .bind(org.uuid())
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
        let event = event::about(org, Subject::Org(org), 0, fact, Source::Billing, now);
        event::record(tx, &[event]).await?;
    }
    Ok(budget.at_limit == AtLimit::Pause && reached >= 100)
}
