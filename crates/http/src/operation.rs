//! Operations on a service: each is one POST, accepted or refused like any other change.

use axum::response::Response;
use trueup_api::preview::OrPreview;
use trueup_api::service::{
    AutoscaleBody, ForceDeleteBody, HoursBody, NoBody, ResizeBody, RollbackBody, ScaleBody, Service,
};
use trueup_model::principal::Permission;
use trueup_rules::admit::operation::ServiceOperation;

use crate::front::extract::Path;
use crate::front::problem::Answer;
use crate::project::name;
use crate::write::idempotency::Keyed;
use crate::write::request::{DryRun, Target, WriteRequest};

/// Pauses a service: stops its pods and keeps its volumes, addresses and share of the quota.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/pause",
    operation_id = "service_pause", tag = "services",
    params(Target, DryRun), request_body = NoBody,
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, description = "already paused, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service)))]
pub(crate) async fn service_pause(
    change: WriteRequest,
    Path(target): Path<Target>,
    Keyed { body: NoBody {}, key }: Keyed<NoBody>,
) -> Answer<Response> {
    change.act(&target, &ServiceOperation::Pause, key).await
}

/// Resumes a paused service.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/resume",
    operation_id = "service_resume", tag = "services",
    params(Target, DryRun), request_body = NoBody,
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, description = "not paused, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service)))]
pub(crate) async fn service_resume(
    change: WriteRequest,
    Path(target): Path<Target>,
    Keyed { body: NoBody {}, key }: Keyed<NoBody>,
) -> Answer<Response> {
    change.act(&target, &ServiceOperation::Resume, key).await
}

/// Restarts a service: replaces every pod, a few at a time.
///
/// Send an `Idempotency-Key`: without one, a retried request restarts the service twice.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/restart",
    operation_id = "service_restart", tag = "services",
    params(Target, DryRun), request_body = NoBody,
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, description = "a retry with the same key, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service)))]
pub(crate) async fn service_restart(
    change: WriteRequest,
    Path(target): Path<Target>,
    Keyed { body: NoBody {}, key }: Keyed<NoBody>,
) -> Answer<Response> {
    change.act(&target, &ServiceOperation::Restart, key).await
}

/// Sets the number of a service's pods, and turns autoscaling off.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/scale",
    operation_id = "service_scale", tag = "services",
    params(Target, DryRun), request_body = ScaleBody,
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, description = "unchanged, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service)))]
pub(crate) async fn service_scale(
    change: WriteRequest,
    Path(target): Path<Target>,
    Keyed { body: ScaleBody { replicas }, key }: Keyed<ScaleBody>,
) -> Answer<Response> {
    change.act(&target, &ServiceOperation::Scale { replicas }, key).await
}

/// Turns autoscaling on: the number of pods follows the load, within bounds.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/autoscale",
    operation_id = "service_autoscale", tag = "services",
    params(Target, DryRun), request_body = AutoscaleBody,
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, description = "unchanged, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service)))]
pub(crate) async fn service_autoscale(
    change: WriteRequest,
    Path(target): Path<Target>,
    Keyed { body: AutoscaleBody { min, max, cpu_percent }, key }: Keyed<AutoscaleBody>,
) -> Answer<Response> {
    let operation = ServiceOperation::Autoscale { min, max, cpu_percent };
    change.act(&target, &operation, key).await
}

/// Changes the plan of a service: the size of its pods.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/resize",
    operation_id = "service_resize", tag = "services",
    params(Target, DryRun), request_body = ResizeBody,
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, description = "unchanged, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service)))]
pub(crate) async fn service_resize(
    change: WriteRequest,
    Path(target): Path<Target>,
    Keyed { body: ResizeBody { plan }, key }: Keyed<ResizeBody>,
) -> Answer<Response> {
    let operation = ServiceOperation::Resize { plan: name("plan", &plan)? };
    change.act(&target, &operation, key).await
}

/// Sets when a service runs: within windows by the clock of a place, or always.
///
/// Outside of its hours it is paused. A person who pauses or resumes it wins until its hours change something next.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/hours",
    operation_id = "service_hours", tag = "services",
    params(Target, DryRun), request_body = HoursBody,
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, description = "unchanged, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service)))]
pub(crate) async fn service_hours(
    change: WriteRequest,
    Path(target): Path<Target>,
    Keyed { body: HoursBody { active }, key }: Keyed<HoursBody>,
) -> Answer<Response> {
    change.act(&target, &ServiceOperation::Hours { active }, key).await
}

/// Rolls a service back to an earlier generation, as a new generation.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/rollback",
    operation_id = "service_rollback", tag = "services",
    params(Target, DryRun), request_body = RollbackBody,
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, description = "unchanged, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service)))]
pub(crate) async fn service_rollback(
    change: WriteRequest,
    Path(target): Path<Target>,
    Keyed { body: RollbackBody { to }, key }: Keyed<RollbackBody>,
) -> Answer<Response> {
    change.act(&target, &ServiceOperation::Rollback { to }, key).await
}

/// Force-completes a stuck deletion: frees the name and the quota without proof of absence.
///
/// The receipt says what was not proved, who forced it and why. Objects left in the cluster are not
/// deleted.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/force-delete",
    operation_id = "service_force_delete", tag = "services",
    params(Target, DryRun), request_body = ForceDeleteBody,
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, description = "already deleted, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service)))]
pub(crate) async fn service_force_delete(
    change: WriteRequest,
    Path(target): Path<Target>,
    Keyed { body: ForceDeleteBody { reason, generation }, key }: Keyed<ForceDeleteBody>,
) -> Answer<Response> {
    // Needs more than the permission to delete: afterwards absence is not proved.
    let change = change.within(Permission::ManageProjects)?;
    let operation = ServiceOperation::ForceDelete { reason };
    change.act_at(&target, &operation, generation, key).await
}
