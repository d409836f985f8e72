//! Sets and removes budgets, and keeps accepted services within them.

use jiff::Timestamp;
use trueup_model::billing::BillingSettings;
use trueup_model::budget::{AtLimit, Budget};
use trueup_model::event::{BudgetChanged, Fact};
use trueup_model::id::{OrgId, ProjectId};
use trueup_model::money::Money;
use trueup_model::order::Unit;
use trueup_model::service::{DesiredState, Service};
use trueup_model::subject::Subject;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_rules::preview::cost;

use super::config::invalid;
use super::write::Write;
use super::{Refusal, RequestContext, ServiceRequest, system_principal};
use crate::budget::Scope;
use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::{App, Error, balance, billing, budget, plan, project};

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
    /// Sets the budget of an org, or of one of its projects; or removes it.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn put_budget(
        &self,
        (org, project): (OrgId, Option<&str>),
        wanted: Option<BudgetRequest>,
        settings: &BillingSettings,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<(Option<Budget>, bool), Refusal> {
        self.write(org, context, now, |write| put(write, project, wanted, settings)).await
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
    project: Option<&str>,
    wanted: Option<BudgetRequest>,
    settings: &BillingSettings,
) -> Result<(Option<Budget>, bool), Refusal> {
    let (org, now) = (write.org(), write.now);
    // As every change of services: nothing is accepted meanwhile.
    sqlx::query("select from quotas where org_id = trueup_org() for update")
        .execute(&mut *write.tx)
        .await?;
    let account = billing::account(&mut write.tx, org, settings.currency).await?;
    let scope = match project {
        Some(project) => {
            let found = project::find(&mut write.tx, project).await?;
            Some(found.ok_or(Refusal::NotFound("project"))?.project.id)
        }
        None => None,
    };
    let current = budget::load(&mut write.tx, (org, scope), &account, now).await?;
    let same = |one: BudgetRequest| {
        current
            .is_some_and(|now| (now.limit_micros, now.at_limit) == (one.limit.micros, one.at_limit))
    };
    if wanted.map_or_else(|| current.is_none(), same) {
        return write.finish((current, false)).await;
    }
    if wanted.is_some() {
        budget::price_services(&mut write.tx, org, account.currency).await?;
    }
    let at_limit = match wanted {
        Some(wanted) if wanted.limit.currency != account.currency => {
            let message =
                format!("must be {}, the currency of the org's billing account", account.currency);
            return Err(invalid("currency", message));
        }
        Some(wanted) => {
            let period = budget::period(&account, now);
            let spent = budget::spent(&mut write.tx, (org, scope), period).await?;
            store(&mut write, scope, wanted, (period.from, spent)).await?;
            wanted.at_limit
        }
        None => {
            sqlx::query(
                "update budgets set limit_micros = null
                 where org_id = trueup_org() and project_id is not distinct from $1",
            )
            .bind(scope.map(ProjectId::uuid))
            .execute(&mut *write.tx)
            .await?;
            AtLimit::Warn
        }
    };
    let stored = budget::load(&mut write.tx, (org, scope), &account, now).await?;
    if let Some(stored) = stored.filter(|one| !one.is_kept()) {
        return Err(below_use(&stored));
    }
    let limit_micros = wanted.map(|wanted| wanted.limit.micros);
    let principal = write.principal();
    let fact = Fact::BudgetChanged(BudgetChanged { limit_micros, at_limit, principal });
    let subject = scope.map_or(Subject::Org(org), |project| Unit::Project(project).into());
    write.record_about(subject, 0, fact).await?;
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
    write: &mut Write<'_>,
    scope: Scope,
    wanted: BudgetRequest,
    (period_from, spent): (Timestamp, i64),
) -> Result<(), Error> {
    sqlx::query(
        "insert into budgets (org_id, project_id, limit_micros, currency, at_limit, period_from, spent_micros,
                              changed_at)
         values (trueup_org(), $1, $2, $3, $4, $5, $6, $7)
         on conflict (org_id, project_id) do update
             set limit_micros = excluded.limit_micros, currency = excluded.currency, at_limit = excluded.at_limit,
                 period_from = excluded.period_from, spent_micros = excluded.spent_micros, reached = 0,
                 changed_at = excluded.changed_at",
    )
    .bind(scope.map(ProjectId::uuid))
    .bind(wanted.limit.micros)
    .bind(wanted.limit.currency.to_string())
    .bind(wanted.at_limit.into_str())
    .bind(sql(period_from))
    .bind(spent)
    .bind(sql(write.now))
    .execute(&mut *write.tx)
    .await?;
    Ok(())
}

/// Records what a service costs per hour, and refuses what a budget has no room for: that of its project,
/// or that of its org.
///
/// After its quota was reserved: the lock of the quota orders the requests of the org.
pub(super) async fn reserve(tx: &mut Tx, service: &Service, now: Timestamp) -> Result<(), Refusal> {
    let plan = plan::find(tx, service.spec.plan.as_ref()).await?;
    let hourly = plan.map(|plan| cost::hourly(&service.spec, service.desired, &plan));
    let priced_in = hourly.map(|one| one.currency);
    let budgets = budget::over(tx, service.org, service.project).await?;
    let is_counted = |one: &Money| budgets.iter().all(|(_, currency)| one.currency == *currency);
    let counted = hourly.filter(is_counted);
    let micros = match service.desired {
        DesiredState::Deleted => 0,
        DesiredState::Active | DesiredState::Paused => counted.map_or(0, |one| one.micros),
    };
    let more = budget::price_service(tx, service.id, micros).await?;
    if more <= 0 {
        return Ok(());
    }
    // Amounts are never converted: what has no price in the org's currency is not sold to it.
    if let (Some(plan), Some(org)) = (priced_in, billing::currency(tx, service.org).await?)
        && plan != org
    {
        let message =
            format!("has its price in {plan}, and the org is billed in {org}; choose another plan");
        return Err(invalid("plan", message));
    }
    if balance::refuses(tx, service.org).await? {
        return Err(Refusal::NoBalance);
    }
    for (scope, currency) in budgets {
        let account = billing::account(tx, service.org, currency).await?;
        // The budget already has what this service holds now.
        let stored = budget::load(tx, (service.org, scope), &account, now).await?;
        let Some(budget) = stored.filter(|one| !one.is_kept()) else { continue };
        let until = budget::period(&account, now).until;
        let more_micros = budget::held(more, until.duration_since(now));
        let project = match scope {
            Some(project) => Some(project::name(tx, project).await?),
            None => None,
        };
        return Err(Refusal::OverSpending { budget, more_micros, project });
    }
    Ok(())
}
