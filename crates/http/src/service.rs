//! Services: list, show, declare, delete.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use trueup_api::preview::OrPreview;
use trueup_api::service::{Service, ServiceList, ServiceManifest};
use trueup_api::{Code, Problem};
use trueup_model::name::Name;
use trueup_model::principal::Permission;
use trueup_model::service::DesiredState;
use trueup_model::status::{Health, Phase};
use trueup_model::template::ParseTemplateRefError;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_rules::admit::{AdmissionRequest, FieldError};
use trueup_rules::status::{freshness, reconciliation};
use trueup_store::ServiceFilter;
use trueup_store::door::ServiceRequest;

use crate::front::caller::Caller;
use crate::front::cursor;
use crate::front::extract::{Path, Query};
use crate::front::problem::{Answer, Failure};
use crate::front::read_repair::doubt;
use crate::project::{matches_path, name};
use crate::write::answer::{is_unchanged, tag};
use crate::write::idempotency::Keyed;
use crate::write::request::{Declaration, Declaring, DryRun, Target, WriteRequest};
use crate::{AppState, view};

/// Which services to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Only those of this project, by name or id.
    project: Option<String>,
    /// Only those made from this template, in any version.
    template: Option<String>,
    /// Only those of this plan.
    plan: Option<String>,
    /// Only those that are promised to be `active`, `paused` or `deleted`.
    #[param(value_type = Option<String>)]
    desired: Option<DesiredState>,
    /// Only those in this phase.
    #[param(value_type = Option<String>)]
    phase: Option<Phase>,
    /// Only those that are shown with this health.
    #[param(value_type = Option<String>)]
    health: Option<Health>,
    /// Only those whose name holds this text.
    search: Option<String>,
    /// Where to go on: the `next` of the page before.
    cursor: Option<String>,
    /// At most this many, up to 1000; 100 where nothing is said.
    limit: Option<i64>,
}

/// Lists the living services of the org in name order, a page at a time.
#[utoipa::path(get, path = "/v1/services", operation_id = "service_list", tag = "services",
    params(Filter),
    responses((status = 200, body = ServiceList), (status = "4XX", body = Problem)))]
pub(crate) async fn service_list(
    State(state): State<AppState>,
    caller: Caller,
    Query(wanted): Query<Filter>,
) -> Answer<Json<ServiceList>> {
    caller.must(Permission::Read)?;
    let (after, limit) =
        (cursor::position(caller.org, wanted.cursor.as_deref())?, cursor::limit(wanted.limit)?);
    let filter = filter(&state, &caller, wanted).await?;
    let now = state.clock.now();
    let mut rows = state
        .app
        .list_services(caller.org, &filter, after.as_ref(), limit.saturating_add(1), now)
        .await?;
    let more = usize::try_from(limit).is_ok_and(|limit| {
        let more = rows.len() > limit;
        rows.truncate(limit);
        more
    });
    let last = rows.last().filter(|_| more).map(|row| &row.service);
    let next = last.map(|service| cursor::after(caller.org, service.name.as_str(), service.id));
    Ok(Json(ServiceList { items: rows.iter().map(|row| view::service(row, now)).collect(), next }))
}

/// Names in a filter that cannot be names find nothing, and that is said.
async fn filter(state: &AppState, caller: &Caller, wanted: Filter) -> Answer<ServiceFilter> {
    let project = match &wanted.project {
        Some(wanted) => {
            let row = state.app.find_project(caller.org, wanted).await?;
            Some(row.ok_or_else(|| Failure::not_found("project"))?.project.id)
        }
        None => None,
    };
    let search = wanted.search.map(|text| text.to_lowercase());
    if search.as_ref().is_some_and(|text| text.is_empty() || text.contains('\0')) {
        return Err(Failure::new(Code::BadRequest, "`search` takes a part of a name"));
    }
    Ok(ServiceFilter {
        project,
        template: wanted.template.map(|text| name("template", &text)).transpose()?,
        plan: wanted.plan.map(|text| name("plan", &text)).transpose()?,
        desired: wanted.desired,
        phase: wanted.phase,
        health: wanted.health,
        search,
    })
}

/// Shows one service; by its id also after it was deleted, with the receipt.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}", operation_id = "service_get",
    tag = "services",
    params(("project" = String, Path, description = "name or id"),
           ("service" = String, Path, description = "name or id")),
    responses((status = 200, body = Service), (status = 304, description = "unchanged"),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_get(
    State(state): State<AppState>,
    caller: Caller,
    Path((project, service)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer<Response> {
    caller.must(Permission::Read)?;
    let found = state.app.find_service(caller.org, &project, &service).await?;
    let detail = found.ok_or_else(|| Failure::not_found("service"))?;
    let mut answer = HeaderMap::new();
    tag(&mut answer, &state, &detail.row);
    if is_unchanged(&headers, &answer) {
        return Ok((StatusCode::NOT_MODIFIED, answer).into_response());
    }
    let now = state.clock.now();
    let row = &detail.row;
    let unheard = row.watches.silent(&freshness::objects(&row.service.spec), now);
    let settled = reconciliation(&row.status, row.service.generation, !unheard.is_empty());
    doubt(&state, row, settled).await;
    Ok((answer, Json(view::detail(&detail, now))).into_response())
}

/// Declares a service: 202 when there is something to make true, 200 when it already is promised.
#[utoipa::path(put, path = "/v1/projects/{project}/services/{service}", operation_id = "service_put",
    tag = "services",
    params(("project" = String, Path, description = "name or id"),
           ("service" = String, Path, description = "name"), Declaring),
    request_body = ServiceManifest,
    responses((status = 200, description = "unchanged, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_put(
    Declaration { change, with_project, preview }: Declaration,
    Path(target): Path<Target>,
    Keyed { body: manifest, repeat }: Keyed<ServiceManifest>,
) -> Answer<Response> {
    change.must(Permission::ManageServices)?;
    let (service, ask) = declared(&target, manifest)?;
    let project = target.project;
    let made = if with_project {
        change.must(Permission::ManageProjects)?;
        Some(name("project", &project)?)
    } else {
        None
    };
    let wanted = ServiceRequest::declare(&project, &service, &ask);
    change.service(ServiceRequest { with_project: made.as_ref(), preview, ..wanted }, repeat).await
}

/// Which service a manifest declares at this place, and what it asks for.
pub(crate) fn declared(
    target: &Target,
    manifest: ServiceManifest,
) -> Answer<(Name, AdmissionRequest)> {
    matches_path("kind", manifest.kind.as_deref(), "Service")?;
    matches_path("name", manifest.name.as_deref(), &target.service)?;
    matches_path("project", manifest.project.as_deref(), &target.project)?;
    Ok((name("name", &target.service)?, ask(manifest)?))
}

/// What a manifest asks for, or every part of it that cannot be read.
fn ask(manifest: ServiceManifest) -> Answer<AdmissionRequest> {
    let template = manifest.template.parse().map_err(|error: ParseTemplateRefError| {
        Failure::invalid(vec![FieldError::at("template", error.to_string())])
    })?;
    let plan = manifest.plan.map(|plan| name("plan", &plan)).transpose()?;
    Ok(AdmissionRequest { template, plan, parameters: manifest.parameters })
}

/// Asks for a service to be gone; watch it until its absence is verified.
#[utoipa::path(delete, path = "/v1/projects/{project}/services/{service}",
    operation_id = "service_delete", tag = "services",
    params(Target, DryRun),
    responses((status = 200, description = "already being deleted, or a preview",
               body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_delete(
    change: WriteRequest,
    Path(target): Path<Target>,
) -> Answer<Response> {
    change.act(&target, &ServiceOperation::Delete, None).await
}
