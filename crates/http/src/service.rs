//! Services: list, show, declare, delete.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use trueup_api::Problem;
use trueup_api::service::{Service, ServiceList, ServiceManifest};
use trueup_model::crash;
use trueup_model::principal::Permission;
use trueup_model::template::ParseTemplateRefError;
use trueup_rules::admit::{Ask, Breach};
use trueup_store::door::{DeleteAsk, ServiceAsk};

use crate::address::{Path, Query};
use crate::answer::{accepted, if_generation, is_unchanged, tag};
use crate::body::Body;
use crate::caller::Caller;
use crate::problem::{Answer, Failure};
use crate::project::{matches_path, name};
use crate::{Door, view};

/// Which services to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    /// Only those of this project, by name or id.
    project: Option<String>,
}

/// Lists the living services of the org.
#[utoipa::path(get, path = "/v1/services", operation_id = "service_list", tag = "services",
    params(Filter),
    responses((status = 200, body = ServiceList), (status = "4XX", body = Problem)))]
pub(crate) async fn service_list(
    State(door): State<Door>,
    caller: Caller,
    Query(filter): Query<Filter>,
) -> Answer<Json<ServiceList>> {
    caller.must(Permission::Read)?;
    let project = match &filter.project {
        Some(wanted) => {
            let row = door.app.find_project(caller.org, wanted).await?;
            Some(row.ok_or_else(|| Failure::not_found("project"))?.project.id)
        }
        None => None,
    };
    let rows = door.app.list_services(caller.org, project).await?;
    let now = door.clock.now();
    Ok(Json(ServiceList { items: rows.iter().map(|row| view::service(row, now)).collect() }))
}

/// Shows one service; by its id also after it was deleted, with the receipt.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}", operation_id = "service_get",
    tag = "services",
    params(("project" = String, Path, description = "name or id"),
           ("service" = String, Path, description = "name or id")),
    responses((status = 200, body = Service), (status = 304, description = "unchanged"),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_get(
    State(door): State<Door>,
    caller: Caller,
    Path((project, service)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer<Response> {
    caller.must(Permission::Read)?;
    let found = door.app.find_service(caller.org, &project, &service).await?;
    let detail = found.ok_or_else(|| Failure::not_found("service"))?;
    let mut answer = HeaderMap::new();
    tag(&mut answer, &door, &detail.row);
    if is_unchanged(&headers, &answer) {
        return Ok((StatusCode::NOT_MODIFIED, answer).into_response());
    }
    Ok((answer, Json(view::detail(&detail, door.clock.now()))).into_response())
}

/// Declares a service: 202 when there is something to make true, 200 when it already is promised.
#[utoipa::path(put, path = "/v1/projects/{project}/services/{service}", operation_id = "service_put",
    tag = "services",
    params(("project" = String, Path, description = "name or id"),
           ("service" = String, Path, description = "name")),
    request_body = ServiceManifest,
    responses((status = 200, description = "unchanged", body = Service),
              (status = 202, description = "accepted", body = Service),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_put(
    State(door): State<Door>,
    caller: Caller,
    Path((project, service)): Path<(String, String)>,
    headers: HeaderMap,
    Body(manifest): Body<ServiceManifest>,
) -> Answer<Response> {
    caller.must(Permission::ManageServices)?;
    matches_path("kind", manifest.kind.as_deref(), "Service")?;
    matches_path("name", manifest.name.as_deref(), &service)?;
    matches_path("project", manifest.project.as_deref(), &project)?;
    let name = name("name", &service)?;
    let template = manifest.template.parse().map_err(|error: ParseTemplateRefError| {
        Failure::invalid(vec![Breach { field: "template".to_owned(), message: error.to_string() }])
    })?;
    let ask = Ask { template, parameters: manifest.parameters };
    let wanted = ServiceAsk {
        project: &project,
        name: &name,
        ask: &ask,
        if_generation: if_generation(&headers)?,
    };
    let now = door.clock.now();
    let answer = door.app.accept_service(caller.org, &wanted, &caller.asker(), now).await?;
    if answer.changed {
        recorded(&door);
    }
    Ok(accepted(&door, &answer.row, answer.changed))
}

/// Asks for a service to be gone; watch it until its absence is verified.
#[utoipa::path(delete, path = "/v1/projects/{project}/services/{service}",
    operation_id = "service_delete", tag = "services",
    params(("project" = String, Path, description = "name or id"),
           ("service" = String, Path, description = "name or id")),
    responses((status = 200, description = "already being deleted", body = Service),
              (status = 202, description = "accepted", body = Service),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_delete(
    State(door): State<Door>,
    caller: Caller,
    Path((project, service)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer<Response> {
    caller.must(Permission::ManageServices)?;
    let wanted =
        DeleteAsk { project: &project, service: &service, if_generation: if_generation(&headers)? };
    let now = door.clock.now();
    let answer = door.app.delete_service(caller.org, &wanted, &caller.asker(), now).await?;
    if answer.changed {
        recorded(&door);
    }
    Ok(accepted(&door, &answer.row, answer.changed))
}

/// A change is durable: wake the loops.
fn recorded(door: &Door) {
    crash::point("door.accepted");
    door.signals.wake();
    door.signals.event();
}
