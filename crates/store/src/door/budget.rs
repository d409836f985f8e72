//! Sets and removes budgets, and keeps accepted services within them.

use jiff::Timestamp;
use trueup_model::billing::BillingSettings;
use trueup_model::budget::{AtLimit, Budget};
use trueup_model::event::{BudgetChanged, Fact};
use trueup_model::id::OrgId;
use trueup_model::money::Money;
use trueup_model::service::{DesiredState, Service};
use trueup_rules::admit::operation::ServiceOperation;
use trueup_rules::preview::cost;

use super::config::invalid;
use super::write::Write;
use super::{Refusal, RequestContext, ServiceRequest, system_principal};
use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::{App, Error, billing, budget, plan};

/// The loop that pauses services when a budget is spent.
const KEEPER: &str = "budget";

/// The budget that is wanted for an org.
#[derive(Debug, Clone, Copy)]
pub struct BudgetRequest {
    /// How much may be spent in a billing period.
    pub limit: Money,
    /// What happens then.
    pub at_limit: AtLimit,
}

impl App {
    /// Sets the budget of an org, or removes it.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn put_budget(
        &self,
        org: OrgId,
        wanted: Option<BudgetRequest>,
        settings: &BillingSettings,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<(Option<Budget>, bool), Refusal> {
        self.write(org, context, now, |write| put(write, wanted, settings)).await
    }

    /// Pauses a service because the budget of its org is spent.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn pause_over_budget(
        &self,
        org: OrgId,
        (project, service): (&str, &str),
        now: Timestamp,
    ) -> Result<bool, Refusal> {
        let principal = system_principal(org, KEEPER);
        let context = RequestContext::system(&principal);
        let wanted = ServiceRequest::act(project, service, &ServiceOperation::Pause);
        Ok(self.accept_service(org, &wanted, &context, now).await?.changed)
    }
}

async fn put(
    mut write: Write<'_>,
    wanted: Option<BudgetRequest>,
    settings: &BillingSettings,
) -> Result<(Option<Budget>, bool), Refusal> {
    let (org, now) = (write.org(), write.now);
    // As every change of services: nothing is accepted meanwhile.
    sqlx::query("select from quotas where org_id = trueup_org() for update")
        .execute(&mut *write.tx)
        .await?;
    let account = billing::account(&mut write.tx, org, settings.currency).await?;
    let current = budget::load(&mut write.tx, org, &account, now).await?;
    let same = |one: BudgetRequest| {
        current
            .is_some_and(|now| (now.limit_micros, now.at_limit) == (one.limit.micros, one.at_limit))
    };
    if wanted.map_or_else(|| current.is_none(), same) {
        return write.finish((current, false)).await;
    }
    let at_limit = match wanted {
        Some(wanted) if wanted.limit.currency != account.currency => {
            let message =
                format!("must be {}, the currency of the org's billing account", account.currency);
            return Err(invalid("currency", message));
        }
        Some(wanted) => {
            let period = budget::period(&account, now);
            let spent = budget::spent(&mut write.tx, org, period).await?;
            store(&mut write.tx, wanted, period.from, spent, now).await?;
            wanted.at_limit
        }
        None => {
            sqlx::query("update budgets set limit_micros = null where org_id = trueup_org()")
                .execute(&mut *write.tx)
                .await?;
            AtLimit::Warn
        }
    };
    let stored = budget::load(&mut write.tx, org, &account, now).await?;
    if let Some(stored) = stored.filter(|one| !one.is_kept()) {
        return Err(below_use(&stored));
    }
    let limit_micros = wanted.map(|wanted| wanted.limit.micros);
    let principal = write.principal();
    write.record(Fact::BudgetChanged(BudgetChanged { limit_micros, at_limit, principal })).await?;
    write.finish((stored, true)).await
}

/// A hard limit begins above what is spent and held already.
fn below_use(stored: &Budget) -> Refusal {
    let amount = |micros: i64| Money { micros, currency: stored.currency };
    let message = format!(
        "is below what is spent ({}) and what the services will cost until the end of the period ({}); \
         set a higher limit, scale something down first, or use `warn`",
        amount(stored.spent_micros),
        amount(stored.held_micros),
    );
    invalid("limit_micros", message)
}

async fn store(
    tx: &mut Tx,
    wanted: BudgetRequest,
    period_from: Timestamp,
    spent: i64,
    now: Timestamp,
) -> Result<(), Error> {
    sqlx::query(
        "insert into budgets (org_id, limit_micros, currency, at_limit, period_from, spent_micros, changed_at)
         values (trueup_org(), $1, $2, $3, $4, $5, $6)
         on conflict (org_id) do update
             set limit_micros = excluded.limit_micros, currency = excluded.currency, at_limit = excluded.at_limit,
                 period_from = excluded.period_from, spent_micros = excluded.spent_micros, reached = 0,
                 changed_at = excluded.changed_at",
    )
    .bind(wanted.limit.micros)
    .bind(wanted.limit.currency.to_string())
    .bind(wanted.at_limit.into_str())
    .bind(sql(period_from))
    .bind(spent)
    .bind(sql(now))
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Records what a service costs per hour, and refuses what the budget has no room for.
///
/// After its quota was reserved: the lock of the quota orders the requests of the org.
pub(super) async fn reserve(tx: &mut Tx, service: &Service, now: Timestamp) -> Result<(), Refusal> {
    let plan = plan::find(tx, service.spec.plan.as_ref()).await?;
    let hourly = plan.map(|plan| cost::hourly(&service.spec, service.desired, &plan));
    let of_org = budget::currency(tx, service.org).await?;
    let counted = hourly.filter(|one| of_org.is_none_or(|currency| one.currency == currency));
    let micros = match service.desired {
        DesiredState::Deleted => 0,
        DesiredState::Active | DesiredState::Paused => counted.map_or(0, |one| one.micros),
    };
    let more = budget::price_service(tx, service.id, micros).await?;
    let Some(currency) = of_org.filter(|_| more > 0) else { return Ok(()) };
    let account = billing::account(tx, service.org, currency).await?;
    // The budget already has what this service holds now.
    let stored = budget::load(tx, service.org, &account, now).await?;
    match stored.filter(|one| !one.is_kept()) {
        None => Ok(()),
        Some(budget) => {
            let until = budget::period(&account, now).until;
            let more_micros = budget::held(more, until.duration_since(now));
            Err(Refusal::OverSpending { budget, more_micros })
        }
    }
}
