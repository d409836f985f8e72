//! The comparison of a service: desired, applied and observed, field by field.

use axum::Json;
use axum::extract::State;
use serde_json::Value;
use trueup_api::comparison::{ComparedField, Comparison, FieldDivergence, FieldState};
use trueup_model::drift::DivergenceRecord;
use trueup_model::principal::Permission;
use trueup_rules::status::comparison::{self, Compared, FieldComparison, compare};
use trueup_rules::status::freshness;

use crate::AppState;
use crate::drift::has_content;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::plan::money;
use crate::service::view;
use crate::write::request::Target;

/// Compares a service field by field: what is desired, what was applied, and what was observed.
///
/// Without fresh evidence a field is `unknown`, whatever was observed before.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}/comparison",
    operation_id = "service_compare", tag = "services", params(Target),
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, body = Comparison)))]
pub(crate) async fn service_compare(
    State(state): State<AppState>,
    caller: Caller,
    Path(Target { project, service }): Path<Target>,
) -> Answer<Json<Comparison>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let now = state.clock.now();
    let found = app.find_comparison(caller.org, &project, &service).await?;
    let facts = found.ok_or_else(|| Failure::not_found("service"))?;
    let shown = view(&facts.row, now);
    let spec = &facts.row.service.spec;
    let observation = facts.inputs.as_ref().map(|inputs| &inputs.observation);
    let fields = compare(&Compared {
        desired: spec,
        applied: facts.applied.as_ref(),
        observation,
        is_fresh: facts.row.watches.silent(&freshness::objects(spec), now).is_empty(),
        divergences: &facts.divergences,
    });
    let content = caller.reads_content();
    Ok(Json(Comparison {
        service: shown.id,
        generation: shown.generation,
        applied_generation: shown.status.applied_generation,
        observed_generation: observation.map(|observation| observation.generation),
        observed_at: shown.status.observed_at,
        confirmed_at: shown.status.confirmed_at,
        stale_at: shown.status.stale_at,
        reconciliation: shown.reconciliation,
        fields: fields.into_iter().map(|row| field(row, content)).collect(),
    }))
}

/// A field as it is shown; without `content` not with the values of variables.
fn field(row: FieldComparison<'_>, content: bool) -> ComparedField {
    let is_hidden = !content && row.divergence.is_some_and(|one| has_content(&one.divergence));
    // A field of the spec has one name, and a field of an object is in its object.
    let is_of_object = row.divergence.filter(|one| one.divergence.field == row.field);
    ComparedField {
        object: is_of_object.map(|record| record.divergence.key.to_string()),
        field: row.field,
        desired: if is_hidden { Value::Null } else { row.desired },
        applied: row.applied.filter(|_| !is_hidden),
        observed: row.observed.filter(|_| !is_hidden),
        state: match row.state {
            comparison::FieldState::Same => FieldState::Same,
            comparison::FieldState::Pending => FieldState::Pending,
            comparison::FieldState::Differs => FieldState::Differs,
            comparison::FieldState::Unknown => FieldState::Unknown,
        },
        divergence: row.divergence.map(divergence),
    }
}

fn divergence(record: &DivergenceRecord) -> FieldDivergence {
    FieldDivergence {
        id: record.id.to_string(),
        by: record.divergence.by.clone(),
        since: record.first_seen_at,
        verdict: record.divergence.verdict,
        state: record.divergence.state,
        hourly: record.hourly.map(money),
    }
}
