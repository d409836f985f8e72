//! Budgets: how much an org may spend in a billing period.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use trueup_api::budget::{self as api, BudgetBody, Limit};
use trueup_api::preview::OrPreview;
use trueup_api::schema::{MAX_CREDIT, ProjectKey};
use trueup_model::OrgId;
use trueup_model::budget::{AtLimit, Budget};
use trueup_model::money::{Currency, Money, ParseCurrencyError};
use trueup_model::principal::Permission;
use trueup_rules::admit::FieldError;
use trueup_rules::rate::period::month;
use trueup_store::door::BudgetRequest;

use crate::AppState;
use crate::front::body::Body;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::plan::money;
use crate::write::request::{DryRun, WriteRequest};

/// Shows the budget of the org: what is spent, what the services hold, and what is left.
#[utoipa::path(get, path = "/v1/budget", operation_id = "budget_get", tag = "billing",
    responses((status = 200, body = api::Budget)))]
pub(crate) async fn budget_get(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<Json<api::Budget>> {
    caller.must(Permission::ReadBilling)?;
    let now = state.clock.now();
    let found = state.app.find_budget(caller.org, &state.billing, now).await?;
    Ok(Json(view(found, period_end(&state, caller.org, now).await?)))
}

/// Sets the budget of the org.
///
/// With `refuse`, what would cost more until the end of the period than is left is refused. With `pause`,
/// running services are paused as well once the budget is spent.
#[utoipa::path(put, path = "/v1/budget", operation_id = "budget_put", tag = "billing",
    params(DryRun), request_body = BudgetBody,
    responses((status = 200, description = "the budget as it is now, or a preview",
               body = OrPreview<api::Budget>)))]
pub(crate) async fn budget_put(
    change: WriteRequest,
    Body(body): Body<BudgetBody>,
) -> Answer<Response> {
    let wanted = read(&body);
    set(change, None, Some(wanted)).await
}

/// Removes the budget of the org.
#[utoipa::path(delete, path = "/v1/budget", operation_id = "budget_delete", tag = "billing",
    params(DryRun),
    responses((status = 200, description = "no budget is set, or a preview",
               body = OrPreview<api::Budget>)))]
pub(crate) async fn budget_delete(change: WriteRequest) -> Answer<Response> {
    set(change, None, None).await
}

/// Shows the budget of a project: what is spent, what its services hold, and what is left.
#[utoipa::path(get, path = "/v1/projects/{project}/budget", operation_id = "project_budget_get",
    tag = "billing", params(("project" = ProjectKey, Path, description = "name or id")),
    responses((status = 200, body = api::Budget)))]
pub(crate) async fn project_budget_get(
    State(state): State<AppState>,
    caller: Caller,
    Path(project): Path<String>,
) -> Answer<Json<api::Budget>> {
    let app = caller.within(&state.app, Permission::ReadBilling)?;
    let now = state.clock.now();
    let found = app.find_project_budget(caller.org, &project, &state.billing, now).await?;
    let found = found.ok_or_else(|| Failure::not_found("project"))?;
    Ok(Json(view(found, period_end(&state, caller.org, now).await?)))
}

/// Sets the budget of a project, next to that of its org: what would exceed either of them is refused.
#[utoipa::path(put, path = "/v1/projects/{project}/budget", operation_id = "project_budget_put",
    tag = "billing", params(("project" = ProjectKey, Path, description = "name or id"), DryRun),
    request_body = BudgetBody,
    responses((status = 200, description = "the budget as it is now, or a preview",
               body = OrPreview<api::Budget>)))]
pub(crate) async fn project_budget_put(
    change: WriteRequest,
    Path(project): Path<String>,
    Body(body): Body<BudgetBody>,
) -> Answer<Response> {
    let wanted = read(&body);
    set(change, Some(&project), Some(wanted)).await
}

/// Removes the budget of a project.
#[utoipa::path(delete, path = "/v1/projects/{project}/budget", operation_id = "project_budget_delete",
    tag = "billing", params(("project" = ProjectKey, Path, description = "name or id"), DryRun),
    responses((status = 200, description = "the project has no budget, or a preview",
               body = OrPreview<api::Budget>)))]
pub(crate) async fn project_budget_delete(
    change: WriteRequest,
    Path(project): Path<String>,
) -> Answer<Response> {
    set(change, Some(&project), None).await
}

async fn set(
    change: WriteRequest,
    project: Option<&str>,
    wanted: Option<Answer<BudgetRequest>>,
) -> Answer<Response> {
    let change = in_place(change, project, Permission::ManageBilling)?;
    let wanted = wanted.transpose()?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let billing = &change.state.billing;
    let (budget, changed) =
        change.app().put_budget((org, project), wanted, billing, &context, now).await?;
    let until = period_end(&change.state, org, now).await?;
    change.done(changed, &view(budget, until))
}

/// Checks a permission for the whole org; another project than the caller's is not found.
pub(crate) fn in_place(
    change: WriteRequest,
    project: Option<&str>,
    permission: Permission,
) -> Answer<WriteRequest> {
    let change = if project.is_some() { change.within(permission)? } else { change };
    change.must(permission)?;
    Ok(change)
}

fn read(body: &BudgetBody) -> Answer<BudgetRequest> {
    let mut errors = Vec::new();
    if !(1..=MAX_CREDIT).contains(&body.micros) {
        errors.push(FieldError::at("micros", format!("must be from 1 to {MAX_CREDIT} millionths")));
    }
    let currency = body.currency.parse::<Currency>();
    if let Err(error @ ParseCurrencyError) = &currency {
        errors.push(FieldError::at("currency", error.to_string()));
    }
    let at_limit = body.at_limit.parse::<AtLimit>();
    if at_limit.is_err() {
        errors.push(FieldError::at("at_limit", "must be `warn`, `refuse` or `pause`"));
    }
    match (currency, at_limit) {
        (Ok(currency), Ok(at_limit)) if errors.is_empty() => {
            Ok(BudgetRequest { limit: Money { micros: body.micros, currency }, at_limit })
        }
        _ => Err(Failure::invalid(errors)),
    }
}

async fn period_end(state: &AppState, org: OrgId, now: Timestamp) -> Answer<Timestamp> {
    let account = state.app.find_billing_account(org, &state.billing).await?;
    Ok(month(&account.zone(), now).map_or(now, |period| period.until))
}

fn view(budget: Option<Budget>, until: Timestamp) -> api::Budget {
    let limit = budget.map(|budget| {
        let amount = |micros: i64| money(Money { micros, currency: budget.currency });
        let used = budget.spent_micros.saturating_add(budget.held_micros);
        Limit {
            amount: amount(budget.limit_micros),
            at_limit: budget.at_limit,
            spent: amount(budget.spent_micros),
            held: amount(budget.held_micros),
            left: amount(budget.limit_micros.saturating_sub(used)),
        }
    });
    api::Budget { limit, until }
}
