//! Plans: what is sold.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::Problem;
use trueup_api::plan::{Plan, PlanList, PlanManifest};
use trueup_api::preview::OrPreview;
use trueup_model::money::{Currency, Money, ParseCurrencyError};
use trueup_model::plan;
use trueup_model::principal::Permission;
use trueup_model::spec::Resources;
use trueup_rules::admit::FieldError;

use crate::front::body::Body;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::project::{matches_path, name};
use crate::write::request::{DryRun, PlatformWriteRequest};
use crate::{AppState, view};

/// Lists the plans that services can have.
#[utoipa::path(get, path = "/v1/plans", operation_id = "plan_list", tag = "plans",
    responses((status = 200, body = PlanList), (status = "4XX", body = Problem)))]
pub(crate) async fn plan_list(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<Json<PlanList>> {
    caller.must(Permission::Read)?;
    let plans = state.app.list_plans().await?;
    Ok(Json(PlanList { items: plans.iter().map(view::plan).collect() }))
}

/// Sells a plan, or sells it otherwise from now on. For operators of the platform.
#[utoipa::path(put, path = "/v1/plans/{plan}", operation_id = "plan_put", tag = "plans",
    params(("plan" = String, Path, description = "name"), DryRun),
    request_body = PlanManifest,
    responses((status = 200, description = "it is sold like this, or a preview",
               body = OrPreview<Plan>),
              (status = 201, description = "it is new or other than before", body = Plan),
              (status = "4XX", body = Problem)))]
pub(crate) async fn plan_put(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Path(plan): Path<String>,
    Body(manifest): Body<PlanManifest>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    matches_path("kind", manifest.kind.as_deref(), "Plan")?;
    matches_path("name", manifest.name.as_deref(), &plan)?;
    let plan = read(&plan, manifest)?;
    let changed = change.app().put_plan(&plan, &change.context(), change.now()).await?;
    change.created(changed, &view::plan(&plan))
}

/// A pod that has more than this is a mistake in a manifest, not a plan.
const MOST_CPU_MILLIS: u32 = 1_000_000;
const MOST_MEMORY_MIB: u32 = 16 << 20;

fn read(path: &str, manifest: PlanManifest) -> Answer<plan::Plan> {
    let mut errors = Vec::new();
    let currency = manifest.currency.parse::<Currency>();
    if let Err(error @ ParseCurrencyError) = &currency {
        errors.push(FieldError::at("currency", error.to_string()));
    }
    let amounts = [
        ("cpu_millis", manifest.cpu_millis, MOST_CPU_MILLIS),
        ("memory_mib", manifest.memory_mib, MOST_MEMORY_MIB),
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
        },
        hourly: Money { micros: manifest.hourly_micros, currency },
        disk_gib_hourly_micros: manifest.disk_gib_hourly_micros,
        retired: manifest.retired,
    })
}
