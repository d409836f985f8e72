//! Plans: the priced sizes of pods.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::plan::{Amount, Plan, PlanList, PlanManifest, PlanPrice, PlanPriceList};
use trueup_api::preview::OrPreview;
use trueup_api::schema::{MAX_CPU_MILLIS, MAX_MEMORY_MIB};
use trueup_model::money::{Currency, Money, ParseCurrencyError};
use trueup_model::name::Name;
use trueup_model::plan;
use trueup_model::principal::Permission;
use trueup_model::spec::Resources;
use trueup_rules::admit::FieldError;
use trueup_rules::preview::cost;

use crate::AppState;
use crate::front::body::Body;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::project::{matches_path, name};
use crate::write::request::{DryRun, PlatformWriteRequest};

/// Lists the plans, with the prices that hold now.
#[utoipa::path(get, path = "/v1/plans", operation_id = "plan_list", tag = "plans",
    responses((status = 200, body = PlanList)))]
pub(crate) async fn plan_list(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<Json<PlanList>> {
    caller.must_somewhere(Permission::Read)?;
    let plans = state.app.list_plans(state.clock.now()).await?;
    Ok(Json(PlanList { items: plans.iter().map(view).collect() }))
}

/// Lists every price that a plan has had and will have, newest first. Prices never change.
#[utoipa::path(get, path = "/v1/plans/{plan}/prices", operation_id = "plan_prices", tag = "plans",
    params(("plan" = Name, Path, description = "name")),
    responses((status = 200, body = PlanPriceList)))]
pub(crate) async fn plan_prices(
    State(state): State<AppState>,
    caller: Caller,
    Path(plan): Path<String>,
) -> Answer<Json<PlanPriceList>> {
    caller.must_somewhere(Permission::Read)?;
    let found = state.app.list_plan_prices(&plan).await?;
    let prices = found.ok_or_else(|| Failure::not_found("plan"))?;
    Ok(Json(PlanPriceList { items: prices.iter().map(price_view).collect() }))
}

/// Creates or updates a plan. For operators.
///
/// Another price is a new version, from `effective_from` on or at once; former prices stay on
/// record. A price that is published for later is not withdrawn: the next one begins after it.
#[utoipa::path(put, path = "/v1/plans/{plan}", operation_id = "plan_put", tag = "plans",
    params(("plan" = Name, Path, description = "name"), DryRun),
    request_body = PlanManifest,
    responses((status = 200, description = "unchanged, or a preview",
               body = OrPreview<Plan>),
              (status = 201, description = "created or updated", body = Plan)))]
pub(crate) async fn plan_put(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Path(plan): Path<String>,
    Body(manifest): Body<PlanManifest>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    matches_path("kind", manifest.kind.as_deref(), "Plan")?;
    matches_path("name", manifest.name.as_deref(), &plan)?;
    let effective_from = manifest.effective_from;
    let plan = read(&plan, manifest)?;
    let (context, now) = (change.context(), change.now());
    let put = change.app().put_plan(&plan, effective_from, &context, now).await?;
    change.created(put.changed, &view(&put.row))
}

fn read(path: &str, manifest: PlanManifest) -> Answer<plan::Plan> {
    let mut errors = Vec::new();
    let currency = manifest.currency.parse::<Currency>();
    if let Err(error @ ParseCurrencyError) = &currency {
        errors.push(FieldError::at("currency", error.to_string()));
    }
    let amounts = [
        ("cpu_millis", manifest.cpu_millis, MAX_CPU_MILLIS),
        ("memory_mib", manifest.memory_mib, MAX_MEMORY_MIB),
    ];
    for (field, amount, most) in amounts {
        if amount == 0 || amount > most {
            errors.push(FieldError::at(field, format!("must be from 1 to {most}, is {amount}")));
        }
    }
    for (field, price) in [
        ("hourly_micros", manifest.hourly_micros),
        ("disk_gib_hourly_micros", manifest.disk_gib_hourly_micros),
    ] {
        if price < 0 {
            errors.push(FieldError::at(field, "must not be negative"));
        }
    }
    let (Ok(currency), true) = (currency, errors.is_empty()) else {
        return Err(Failure::invalid(errors));
    };
    Ok(plan::Plan {
        name: name("name", path)?,
        nodes: manifest.nodes.as_deref().map(|class| name("nodes", class)).transpose()?,
        summary: manifest.summary,
        resources: Resources {
            cpu_millis: manifest.cpu_millis,
            memory_mib: manifest.memory_mib,
            gpus: manifest.gpus,
            ephemeral_mib: manifest.ephemeral_mib,
        },
        hourly: Money { micros: manifest.hourly_micros, currency },
        disk_gib_hourly_micros: manifest.disk_gib_hourly_micros,
        retired: manifest.retired,
    })
}

fn price_view(price: &plan::PlanPrice) -> PlanPrice {
    let disk = Money { micros: price.disk_gib_hourly_micros, ..price.hourly };
    PlanPrice {
        id: price.version.to_string(),
        from: price.from,
        until: price.until,
        hourly: money(price.hourly),
        disk_gib_hourly: money(disk),
        created_by: price.created_by.clone(),
        created_at: price.created_at,
    }
}

/// An amount of money, exact and formatted.
pub(crate) fn money(money: Money) -> Amount {
    Amount { micros: money.micros, currency: money.currency.to_string(), text: money.to_string() }
}

fn view(plan: &plan::Plan) -> Plan {
    let disk = Money { micros: plan.disk_gib_hourly_micros, ..plan.hourly };
    Plan {
        name: plan.name.to_string(),
        summary: plan.summary.clone(),
        cpu_millis: plan.resources.cpu_millis,
        memory_mib: plan.resources.memory_mib,
        gpus: plan.resources.gpus,
        ephemeral_mib: plan.resources.ephemeral_mib,
        nodes: plan.nodes.as_ref().map(ToString::to_string),
        hourly: money(plan.hourly),
        monthly: money(cost::monthly(plan.hourly)),
        disk_gib_hourly: money(disk),
        retired: plan.retired,
    }
}
