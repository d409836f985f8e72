//! Explanations of a service's state, and the check of stored projections.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use trueup_api::schema::{PageLimit, UnitKey};
use trueup_api::why::{ProjectionCheck, ProjectionDifference, Why, WhyLink};
use trueup_model::principal::Permission;
use trueup_rules::status::why::explain;
use trueup_store::Comparison;

use crate::AppState;
use crate::front::caller::Caller;
use crate::front::cursor;
use crate::front::extract::{Path, Query};
use crate::front::problem::{Answer, Failure};
use crate::write::request::Target;

/// Explains the state of a service, from the request to what it waits for.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}/why",
    operation_id = "service_why", tag = "services", params(Target),
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, body = Why)))]
pub(crate) async fn service_why(
    State(state): State<AppState>,
    caller: Caller,
    Path(Target { project, service }): Path<Target>,
) -> Answer<Json<Why>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let now = state.clock.now();
    let found = app.find_service(caller.org, &project, &service).await?;
    let id = found.ok_or_else(|| Failure::not_found("service"))?.row.service.id.to_string();
    let facts = app.find_why(caller.org, (&project, &id), now).await?;
    let facts = facts.ok_or_else(|| Failure::not_found("service"))?;
    let why = explain(&facts);
    let links = why.links.into_iter().map(|link| WhyLink {
        step: link.step,
        text: link.text,
        at: link.at,
        proof: link.proof,
    });
    Ok(Json(Why { service: id, answer: why.answer, links: links.collect(), unblock: why.unblock }))
}

/// Which statuses to check.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// Only statuses after this one: the `next` of the previous page.
    #[param(value_type = Option<UnitKey>)]
    after: Option<String>,
    /// The page size, up to 1000; the default is 100.
    #[param(value_type = Option<PageLimit>)]
    limit: Option<i64>,
}

/// Recomputes the org's statuses from their stored inputs and compares them, byte for byte.
///
/// Nothing is changed.
#[utoipa::path(get, path = "/v1/projections/check", operation_id = "projection_check",
    tag = "events", params(Page),
    responses((status = 200, body = ProjectionCheck)))]
pub(crate) async fn projection_check(
    State(state): State<AppState>,
    caller: Caller,
    Query(page): Query<Page>,
) -> Answer<Json<ProjectionCheck>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let limit = cursor::limit(page.limit)?;
    let after = page.after.as_deref().map(cursor::unit).transpose()?;
    let rebuilt = app.rebuild_projections(caller.org, after, limit).await?;
    let full = usize::try_from(limit).is_ok_and(|limit| rebuilt.len() == limit);
    let mut check = ProjectionCheck {
        checked: 0,
        same: 0,
        older: 0,
        unobserved: 0,
        different: Vec::new(),
        next: rebuilt.last().filter(|_| full).map(|last| last.unit.to_string()),
    };
    for one in rebuilt {
        check.checked += 1;
        match one.comparison {
            Comparison::Same => check.same += 1,
            Comparison::Older(_) => check.older += 1,
            Comparison::Unobserved => check.unobserved += 1,
            Comparison::Different { stored, rebuilt } => {
                let unit = one.unit.to_string();
                check.different.push(ProjectionDifference { unit, stored, rebuilt });
            }
        }
    }
    Ok(Json(check))
}
