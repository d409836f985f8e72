//! Actions on a service: each is one POST, accepted or refused like any other change.

use axum::response::Response;
use trueup_api::Problem;
use trueup_api::preview::OrPreview;
use trueup_api::service::{
    AutoscaleBody, ForceDeleteBody, NoBody, ResizeBody, RollbackBody, ScaleBody, Service,
};
use trueup_model::principal::Permission;
use trueup_rules::admit::operation::ServiceOperation;

use crate::front::extract::Path;
use crate::front::problem::Answer;
use crate::project::name;
use crate::write::idempotency::Keyed;
use crate::write::request::{DryRun, Target, WriteRequest};

/// Stops a service's pods and keeps everything else: its disk, its addresses, its place in the quota.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/pause",
    operation_id = "service_pause", tag = "services",
    params(Target, DryRun), request_body = NoBody,
    responses((status = 200, description = "it rests already, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_pause(
    change: WriteRequest,
    Path(target): Path<Target>,
    Keyed { body: NoBody {}, repeat }: Keyed<NoBody>,
) -> Answer<Response> {
    change.act(&target, &ServiceOperation::Pause, repeat).await
}

/// Lets a paused service's pods run again.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/resume",
    operation_id = "service_resume", tag = "services",
    params(Target, DryRun), request_body = NoBody,
    responses((status = 200, description = "it runs already, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_resume(
    change: WriteRequest,
    Path(target): Path<Target>,
    Keyed { body: NoBody {}, repeat }: Keyed<NoBody>,
) -> Answer<Response> {
    change.act(&target, &ServiceOperation::Resume, repeat).await
}

/// Replaces every pod of a service, a few at a time. Send an `Idempotency-Key`: without one, a request
/// that is sent twice restarts twice.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/restart",
    operation_id = "service_restart", tag = "services",
    params(Target, DryRun), request_body = NoBody,
    responses((status = 200, description = "a repeat, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_restart(
    change: WriteRequest,
    Path(target): Path<Target>,
    Keyed { body: NoBody {}, repeat }: Keyed<NoBody>,
) -> Answer<Response> {
    change.act(&target, &ServiceOperation::Restart, repeat).await
}

/// Changes how many pods a service has. Where their number followed the load, it no longer does.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/scale",
    operation_id = "service_scale", tag = "services",
    params(Target, DryRun), request_body = ScaleBody,
    responses((status = 200, description = "it has so many already, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_scale(
    change: WriteRequest,
    Path(target): Path<Target>,
    Keyed { body: ScaleBody { replicas }, repeat }: Keyed<ScaleBody>,
) -> Answer<Response> {
    change.act(&target, &ServiceOperation::Scale { replicas }, repeat).await
}

/// Lets the number of a service's pods follow the load, within bounds.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/autoscale",
    operation_id = "service_autoscale", tag = "services",
    params(Target, DryRun), request_body = AutoscaleBody,
    responses((status = 200, description = "it does so already, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_autoscale(
    change: WriteRequest,
    Path(target): Path<Target>,
    Keyed { body: AutoscaleBody { min, max, cpu_percent }, repeat }: Keyed<AutoscaleBody>,
) -> Answer<Response> {
    let action = ServiceOperation::Autoscale { min, max, cpu_percent };
    change.act(&target, &action, repeat).await
}

/// Changes the size of a service's pods.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/resize",
    operation_id = "service_resize", tag = "services",
    params(Target, DryRun), request_body = ResizeBody,
    responses((status = 200, description = "it has this plan already, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_resize(
    change: WriteRequest,
    Path(target): Path<Target>,
    Keyed { body: ResizeBody { plan }, repeat }: Keyed<ResizeBody>,
) -> Answer<Response> {
    let action = ServiceOperation::Resize { plan: name("plan", &plan)? };
    change.act(&target, &action, repeat).await
}

/// Promises again what a former generation promised, as a new generation.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/rollback",
    operation_id = "service_rollback", tag = "services",
    params(Target, DryRun), request_body = RollbackBody,
    responses((status = 200, description = "nothing differs, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_rollback(
    change: WriteRequest,
    Path(target): Path<Target>,
    Keyed { body: RollbackBody { to }, repeat }: Keyed<RollbackBody>,
) -> Answer<Response> {
    change.act(&target, &ServiceOperation::Rollback { to }, repeat).await
}

/// Ends a deletion that cannot be proved: the name and the quota are free again, and the receipt says
/// what was not proved, who ended it and why. What is left in the cluster is not deleted.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/force-delete",
    operation_id = "service_force_delete", tag = "services",
    params(Target, DryRun), request_body = ForceDeleteBody,
    responses((status = 200, description = "it is gone already, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_force_delete(
    change: WriteRequest,
    Path(target): Path<Target>,
    Keyed { body: ForceDeleteBody { reason, generation }, repeat }: Keyed<ForceDeleteBody>,
) -> Answer<Response> {
    // Not for everybody who may delete: afterwards nobody proves that nothing is left.
    change.must(Permission::ManageProjects)?;
    let action = ServiceOperation::ForceDelete { reason };
    change.act_at(&target, &action, generation, repeat).await
}
