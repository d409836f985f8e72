//! Freezes: no writes to a service, a cluster or all clusters; and the reconcile of a service.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::cluster::Cluster;
use trueup_api::freeze::{self as api, FreezeBody, Platform};
use trueup_api::preview::OrPreview;
use trueup_api::schema::ClusterKey;
use trueup_api::service::{NoBody, Service};
use trueup_model::freeze::Freeze;
use trueup_model::principal::Permission;
use trueup_store::FreezeRequest;
use trueup_store::door::Accepted;

use crate::AppState;
use crate::front::body::{Body, sentence};
use crate::front::caller::Scope;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::write::answer::locate;
use crate::write::request::{DryRun, PlatformWriteRequest, Target, WriteRequest};

/// Freezes a service: Trueup still observes it, and changes wait.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/freeze",
    operation_id = "service_freeze", tag = "services",
    params(Target, DryRun), request_body = FreezeBody,
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, description = "already frozen, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted; frozen within a second", body = Service)))]
pub(crate) async fn service_freeze(
    change: WriteRequest,
    Path(target): Path<Target>,
    Body(body): Body<FreezeBody>,
) -> Answer<Response> {
    set_service_freeze(
        change,
        &target,
        FreezeRequest { reason: Some(sentence("reason", &body.reason)?) },
    )
    .await
}

/// Unfreezes a service. In a frozen cluster it stays frozen.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/unfreeze",
    operation_id = "service_unfreeze", tag = "services",
    params(Target, DryRun), request_body = NoBody,
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, description = "not frozen, or a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service)))]
pub(crate) async fn service_unfreeze(
    change: WriteRequest,
    Path(target): Path<Target>,
    Body(NoBody {}): Body<NoBody>,
) -> Answer<Response> {
    set_service_freeze(change, &target, FreezeRequest { reason: None }).await
}

async fn set_service_freeze(
    change: WriteRequest,
    target: &Target,
    request: FreezeRequest<'_>,
) -> Answer<Response> {
    let change = change.within(Permission::ManageServices)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let of = (target.project.as_str(), target.service.as_str());
    let answer = change.app().freeze_service(org, of, request, &context, now).await?;
    let (state, dry) = (change.state.clone(), change.is_dry());
    let mut response = change.accepted(answer.changed, &crate::service::view(&answer.row, now))?;
    if !dry {
        locate(response.headers_mut(), &state, &answer.row);
    }
    Ok(response)
}

/// Reconciles a service now: reads its objects from the cluster and corrects differences.
///
/// The event `ReconcileChecked` reports the result.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/reconcile",
    operation_id = "service_reconcile", tag = "services",
    params(Target, DryRun), request_body = NoBody,
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, description = "a preview", body = OrPreview<Service>),
              (status = 202, description = "accepted", body = Service)))]
pub(crate) async fn service_reconcile(
    change: WriteRequest,
    Path(target): Path<Target>,
    Body(NoBody {}): Body<NoBody>,
) -> Answer<Response> {
    let change = change.within(Permission::ManageServices)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let of = (target.project.as_str(), target.service.as_str());
    let row = change.app().reconcile_service(org, of, &context, now).await?;
    let (state, dry) = (change.state.clone(), change.is_dry());
    let mut response = change.accepted(true, &crate::service::view(&row, now))?;
    if !dry {
        locate(response.headers_mut(), &state, &row);
    }
    Ok(response)
}

/// Freezes a cluster: no writes to it. For operators.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/freeze", operation_id = "cluster_freeze",
    tag = "clusters", params(("cluster" = ClusterKey, Path, description = "name or id"), DryRun),
    request_body = FreezeBody,
    responses((status = 200, description = "frozen, or a preview", body = OrPreview<Cluster>)))]
pub(crate) async fn cluster_freeze(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Path(cluster): Path<String>,
    Body(body): Body<FreezeBody>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    set_cluster_freeze(
        change,
        &cluster,
        FreezeRequest { reason: Some(sentence("reason", &body.reason)?) },
    )
    .await
}

/// Unfreezes a cluster. For operators.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/unfreeze", operation_id = "cluster_unfreeze",
    tag = "clusters", params(("cluster" = ClusterKey, Path, description = "name or id"), DryRun),
    request_body = NoBody,
    responses((status = 200, description = "not frozen, or a preview", body = OrPreview<Cluster>)))]
pub(crate) async fn cluster_unfreeze(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Path(cluster): Path<String>,
    Body(NoBody {}): Body<NoBody>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    set_cluster_freeze(change, &cluster, FreezeRequest { reason: None }).await
}

async fn set_cluster_freeze(
    change: WriteRequest,
    cluster: &str,
    request: FreezeRequest<'_>,
) -> Answer<Response> {
    let Accepted { row, changed } = set_platform_freeze(&change, Some(cluster), request).await?;
    let found = change.state.app.find_cluster(change.org(), cluster).await?;
    let (found, _) = found.ok_or_else(|| Failure::not_found("cluster"))?;
    let shown = crate::cluster::view(&found, change.now());
    change.done(changed, &Cluster { frozen: row.as_ref().map(view), ..shown })
}

/// Shows whether the whole platform is frozen. For operators.
#[utoipa::path(get, path = "/v1/platform", operation_id = "platform_get", tag = "platform",
    responses((status = 200, body = Platform)))]
pub(crate) async fn platform_get(
    State(state): State<AppState>,
    Scope(caller): Scope,
) -> Answer<Json<Platform>> {
    caller.must(Permission::ReadPlatform)?;
    let frozen = state.app.find_platform_freeze().await?;
    Ok(Json(Platform { frozen: frozen.as_ref().map(view) }))
}

/// Freezes the platform: no writes to any cluster. For operators.
#[utoipa::path(post, path = "/v1/platform/freeze", operation_id = "platform_freeze",
    tag = "platform", params(DryRun), request_body = FreezeBody,
    responses((status = 200, description = "frozen, or a preview", body = OrPreview<Platform>)))]
pub(crate) async fn platform_freeze(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Body(body): Body<FreezeBody>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let request = FreezeRequest { reason: Some(sentence("reason", &body.reason)?) };
    let Accepted { row, changed } = set_platform_freeze(&change, None, request).await?;
    change.done(changed, &Platform { frozen: row.as_ref().map(view) })
}

/// Unfreezes the platform. Clusters that are frozen themselves stay frozen. For operators.
#[utoipa::path(post, path = "/v1/platform/unfreeze", operation_id = "platform_unfreeze",
    tag = "platform", params(DryRun), request_body = NoBody,
    responses((status = 200, description = "not frozen, or a preview", body = OrPreview<Platform>)))]
pub(crate) async fn platform_unfreeze(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Body(NoBody {}): Body<NoBody>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let Accepted { row, changed } =
        set_platform_freeze(&change, None, FreezeRequest { reason: None }).await?;
    change.done(changed, &Platform { frozen: row.as_ref().map(view) })
}

async fn set_platform_freeze(
    change: &WriteRequest,
    cluster: Option<&str>,
    request: FreezeRequest<'_>,
) -> Answer<Accepted<Option<Freeze>>> {
    let (context, now) = (change.context(), change.now());
    let answer = change.app().freeze_platform(cluster, request, &context, now).await?;
    if answer.changed && !change.is_dry() {
        change.state.signals.freeze();
    }
    Ok(answer)
}

/// A freeze as it is shown.
pub(crate) fn view(freeze: &Freeze) -> api::Freeze {
    api::Freeze {
        scope: freeze.scope,
        by: freeze.by.clone(),
        reason: freeze.why.clone(),
        since: freeze.since,
    }
}
