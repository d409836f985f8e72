//! Services: list, show, declare, delete.

pub(crate) mod list;

use crate::{drift, plan};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use trueup_api::Code;
use trueup_api::plan::Amount;
use trueup_api::preview::OrPreview;
use trueup_api::schema::{ProjectKey, ServiceKey};
use trueup_api::service::{
    AutoscaleBody, Service, ServiceCondition, ServiceManifest, ServiceObject, ServiceSchedule,
    ServiceStatus,
};
use trueup_model::cluster::{Freshness, stale_at};
use trueup_model::key::Kind;
use trueup_model::name::Name;
use trueup_model::principal::Permission;
use trueup_model::service::DesiredState;
use trueup_model::status::{Condition, Phase, Status};
use trueup_model::template::ParseTemplateRefError;
use trueup_rules::active_hours;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_rules::admit::{AdmissionRequest, FieldError};
use trueup_rules::preview::cost;
use trueup_rules::status::{aged, freshness, reconciliation};
use trueup_store::door::ServiceRequest;
use trueup_store::{ServiceDetail, ServiceRow};

use crate::AppState;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::front::read_repair::request_repair;
use crate::project::{matches_path, name};
use crate::write::answer::{is_unchanged, tag};
use crate::write::idempotency::Keyed;
use crate::write::request::{Declaration, Declaring, DryRun, Target, WriteRequest};

/// What any operation on a service may answer, beyond what its shape says.
pub(crate) const PROBLEMS: [Code; 2] = [Code::InvalidManifest, Code::NameTaken];

/// Shows a service; by its id also after its deletion, with the receipt.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}", operation_id = "service_get",
    tag = "services",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("service" = ServiceKey, Path, description = "name or id")),
    extensions(("x-problems" = json!(PROBLEMS))),
    responses((status = 200, body = Service), (status = 304, description = "unchanged")))]
pub(crate) async fn service_get(
    State(state): State<AppState>,
    caller: Caller,
    Path((project, service)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer<Response> {
    let app = caller.within(&state.app, Permission::Read)?;
    let found = app.find_service(caller.org, &project, &service).await?;
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
    request_repair(&state, row, settled).await;
    Ok((answer, Json(self::detail(&detail, now, caller.reads_content()))).into_response())
}

/// Declares a service: 202 if the change must converge, 200 if nothing changed.
#[utoipa::path(put, path = "/v1/projects/{project}/services/{service}", operation_id = "service_put",
    tag = "services",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("service" = Name, Path, description = "name"), Declaring),
    request_body = ServiceManifest,
    extensions(("x-problems" = json!([
        Code::NameTaken, Code::PreviewVoid, Code::PreviewNotReady, Code::KeyUnavailable
    ]))),
    responses((status = 200, description = "unchanged, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service)))]
pub(crate) async fn service_put(
    Declaration { change, with_project, preview }: Declaration,
    Path(target): Path<Target>,
    Keyed { body: manifest, key }: Keyed<ServiceManifest>,
) -> Answer<Response> {
    let change = change.within(Permission::ManageServices)?;
    let (service, request) = declared(&target, manifest)?;
    let project = target.project;
    let (change, made) = if with_project {
        (change.within(Permission::ManageProjects)?, Some(name("project", &project)?))
    } else {
        (change, None)
    };
    let wanted = ServiceRequest::declare(&project, &service, &request);
    change.service(ServiceRequest { with_project: made.as_ref(), preview, ..wanted }, key).await
}

/// The name and the admission request of a manifest; it must agree with the path.
pub(crate) fn declared(
    target: &Target,
    manifest: ServiceManifest,
) -> Answer<(Name, AdmissionRequest)> {
    matches_path("kind", manifest.kind.as_deref(), "Service")?;
    matches_path("name", manifest.name.as_deref(), &target.service)?;
    matches_path("project", manifest.project.as_deref(), &target.project)?;
    Ok((name("name", &target.service)?, admission_request(manifest)?))
}

/// Parses a manifest into an admission request.
fn admission_request(manifest: ServiceManifest) -> Answer<AdmissionRequest> {
    let template = manifest.template.parse().map_err(|error: ParseTemplateRefError| {
        Failure::invalid(vec![FieldError::at("template", error.to_string())])
    })?;
    let plan = manifest.plan.map(|plan| name("plan", &plan)).transpose()?;
    let drift = drift::policy(manifest.drift.as_ref())?;
    let (parameters, active) = (manifest.parameters, manifest.active);
    Ok(AdmissionRequest { template, plan, parameters, drift, active })
}

/// Deletes a service; watch it until its absence is verified.
#[utoipa::path(delete, path = "/v1/projects/{project}/services/{service}",
    operation_id = "service_delete", tag = "services",
    params(Target, DryRun),
    extensions(("x-problems" = json!(PROBLEMS))),
    responses((status = 200, description = "already being deleted, or a preview",
               body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service)))]
pub(crate) async fn service_delete(
    change: WriteRequest,
    Path(target): Path<Target>,
) -> Answer<Response> {
    change.act(&target, &ServiceOperation::Delete, None).await
}

/// A service as it is shown. Stale evidence becomes Unknown here, at the time of the read.
pub(crate) fn view(row: &ServiceRow, now: Timestamp) -> Service {
    let desired = &row.service;
    let unheard = row.watches.silent(&freshness::objects(&desired.spec), now);
    let settled = reconciliation(&row.status, desired.generation, !unheard.is_empty());
    let evidence = freshness::evidence(&desired.spec);
    let schedule = schedule(row, now);
    Service {
        id: desired.id.to_string(),
        name: desired.name.to_string(),
        project: row.project_name.clone(),
        template: desired.template.to_string(),
        plan: desired.spec.plan.as_ref().map(ToString::to_string),
        monthly: monthly(row, schedule.as_ref()),
        parameters: desired.parameters.clone(),
        replicas: desired.spec.replicas,
        autoscale: desired.spec.autoscale.as_ref().map(|autoscale| AutoscaleBody {
            min: autoscale.min,
            max: autoscale.max,
            cpu_percent: Some(autoscale.cpu_percent),
        }),
        drift: desired.drift.clone(),
        active: desired.active.clone(),
        schedule,
        desired: desired.desired,
        generation: desired.generation,
        accepted_at: desired.accepted_at,
        created_at: desired.created_at,
        cluster: row.cluster_name.clone(),
        namespace: row.namespace.clone(),
        object_name: desired.object_name.clone(),
        reconciliation: settled,
        status: status(row.status.clone(), &row.watches, &evidence, now),
        objects: Vec::new(),
        divergences: Vec::new(),
        receipt: None,
        frozen: row.frozen.as_ref().map(crate::freeze::view),
        watch: format!("/v1/projects/{}/services/{}/watch", row.project_name, desired.id),
    }
}

/// The price per month of the desired state, with its active hours unless a person paused it.
fn monthly(row: &ServiceRow, schedule: Option<&ServiceSchedule>) -> Option<Amount> {
    let (plan, desired) = (row.plan.as_ref()?, &row.service);
    // A job that ended costs nothing any more.
    if row.status.phase == Phase::Completed {
        return None;
    }
    let by_hours = schedule.filter(|one| one.off || desired.desired == DesiredState::Active);
    let scheduled = by_hours.and_then(|one| one.monthly.clone());
    let always = || plan::money(cost::monthly(cost::hourly(&desired.spec, desired.desired, plan)));
    Some(scheduled.unwrap_or_else(always))
}

/// What the active hours of a service do, from now on.
fn schedule(row: &ServiceRow, now: Timestamp) -> Option<ServiceSchedule> {
    let desired = &row.service;
    let hours = desired.active.as_ref().filter(|_| desired.desired != DesiredState::Deleted)?;
    let minutes_per_week = active_hours::minutes_per_week(hours);
    let edge = active_hours::next_edge(hours, now);
    let price =
        row.plan.as_ref().map(|plan| cost::scheduled(&desired.spec, minutes_per_week, plan));
    Some(ServiceSchedule {
        off: desired.scheduled_off,
        next_at: edge.map(|edge| edge.at),
        next: edge.map(|edge| edge.turn),
        minutes_per_week,
        monthly: price.map(|price| plan::money(price.monthly)),
        saved: price.map(|price| plan::money(price.saved)),
    })
}

/// The status of a service or project as it is shown; it depends on the watches of these kinds.
pub(crate) fn status(
    status: Status,
    watches: &Freshness,
    kinds: &[Kind],
    now: Timestamp,
) -> ServiceStatus {
    let (status, last_known) = aged(status, &watches.silent(kinds, now));
    // A verified absence is final, and what was never observed cannot be confirmed.
    let is_confirmed = status.phase != Phase::Deleted && status.evidence.is_some();
    let confirmed_at = watches.oldest_of(kinds).filter(|_| is_confirmed);
    ServiceStatus {
        phase: status.phase,
        since: status.since,
        health: status.health,
        last_known_health: last_known,
        applied_generation: status.applied_generation,
        conditions: status.conditions.into_iter().map(condition).collect(),
        observed_at: status.evidence.as_ref().map(|evidence| evidence.observed_at),
        confirmed_at,
        stale_at: confirmed_at.map(stale_at),
        uid: status.evidence.as_ref().and_then(|evidence| evidence.uid.clone()),
        resource_version: status
            .evidence
            .as_ref()
            .and_then(|evidence| evidence.resource_version.clone()),
        simulated: status.evidence.as_ref().is_some_and(|evidence| evidence.simulated),
        pods: status.evidence.and_then(|evidence| evidence.pods),
    }
}

fn condition(condition: Condition) -> ServiceCondition {
    let seen = condition.cause;
    ServiceCondition {
        reason: condition.reason,
        message: condition.message,
        cause: seen.as_ref().map(|seen| seen.cause),
        object: seen.as_ref().map(|seen| seen.object.clone()),
        uid: seen.and_then(|seen| seen.uid),
    }
}

/// A service with its objects, its divergences and its deletion receipt.
fn detail(detail: &ServiceDetail, now: Timestamp, content: bool) -> Service {
    let objects = detail
        .resources
        .iter()
        .map(|resource| ServiceObject {
            kind: resource.key.kind,
            namespace: resource.key.namespace.clone(),
            name: resource.key.name.clone(),
            uid: resource.uid.clone(),
            last_seen_at: resource.last_seen_at,
        })
        .collect();
    let divergences = detail.divergences.iter();
    let divergences = divergences.map(|one| drift::difference(one, content)).collect();
    let receipt = detail.receipt.clone();
    Service { objects, divergences, receipt, ..view(&detail.row, now) }
}
