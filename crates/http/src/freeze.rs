//! Freezes: switches that stop every act on something, and looking afresh at a service.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::Problem;
use trueup_api::cluster::Cluster;
use trueup_api::freeze::{self as api, FreezeBody, Platform};
use trueup_api::preview::OrPreview;
use trueup_api::service::{NoBody, Service};
use trueup_model::freeze::Freeze;
use trueup_model::principal::Permission;
use trueup_rules::admit::FieldError;
use trueup_store::FreezeRequest;
use trueup_store::door::Accepted;

use crate::front::body::Body;
use crate::front::caller::Scope;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::write::answer::locate;
use crate::write::request::{DryRun, PlatformWriteRequest, Target, WriteRequest};
use crate::{AppState, view};

/// Stops every act on a service: it is observed, and what is asked of it waits.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/freeze",
    operation_id = "service_freeze", tag = "services",
    params(Target, DryRun), request_body = FreezeBody,
    responses((status = 200, description = "it is so already, or a preview", body = OrPreview<Service>),
              (status = 202, description = "frozen within a second", body = Service),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_freeze(
    change: WriteRequest,
    Path(target): Path<Target>,
    Body(body): Body<FreezeBody>,
) -> Answer<Response> {
    turn_service(change, &target, FreezeRequest { reason: Some(reason(&body)?) }).await
}

/// Lets a service be worked on again. One of a frozen cluster stays frozen with it.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/unfreeze",
    operation_id = "service_unfreeze", tag = "services",
    params(Target, DryRun), request_body = NoBody,
    responses((status = 200, description = "it is so already, or a preview", body = OrPreview<Service>),
              (status = 202, description = "it is worked on again", body = Service),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_unfreeze(
    change: WriteRequest,
    Path(target): Path<Target>,
    Body(NoBody {}): Body<NoBody>,
) -> Answer<Response> {
    turn_service(change, &target, FreezeRequest { reason: None }).await
}

async fn turn_service(
    change: WriteRequest,
    target: &Target,
    ask: FreezeRequest<'_>,
) -> Answer<Response> {
    change.must(Permission::ManageServices)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let of = (target.project.as_str(), target.service.as_str());
    let answer = change.app().freeze_service(org, of, ask, &context, now).await?;
    let (state, dry) = (change.state.clone(), change.is_dry());
    let mut response = change.accepted(answer.changed, &view::service(&answer.row, now))?;
    if !dry {
        locate(response.headers_mut(), &state, &answer.row);
    }
    Ok(response)
}

/// Asks for a service to be looked at now: its objects are read from the cluster itself, and what differs
/// is put right. Watch it for `ReconcileChecked`.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/reconcile",
    operation_id = "service_reconcile", tag = "services",
    params(Target, DryRun), request_body = NoBody,
    responses((status = 200, description = "a preview", body = OrPreview<Service>),
              (status = 202, description = "it will be looked at", body = Service),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_reconcile(
    change: WriteRequest,
    Path(target): Path<Target>,
    Body(NoBody {}): Body<NoBody>,
) -> Answer<Response> {
    change.must(Permission::ManageServices)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let of = (target.project.as_str(), target.service.as_str());
    let row = change.app().reconcile_service(org, of, &context, now).await?;
    let (state, dry) = (change.state.clone(), change.is_dry());
    let mut response = change.accepted(true, &view::service(&row, now))?;
    if !dry {
        locate(response.headers_mut(), &state, &row);
    }
    Ok(response)
}

/// Stops every act on a cluster. For operators.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/freeze", operation_id = "cluster_freeze",
    tag = "clusters", params(("cluster" = String, Path, description = "name or id"), DryRun),
    request_body = FreezeBody,
    responses((status = 200, description = "it is frozen, or a preview", body = OrPreview<Cluster>),
              (status = "4XX", body = Problem)))]
pub(crate) async fn cluster_freeze(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Path(cluster): Path<String>,
    Body(body): Body<FreezeBody>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    turn_cluster(change, &cluster, FreezeRequest { reason: Some(reason(&body)?) }).await
}

/// Lets a cluster be worked on again. For operators.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/unfreeze", operation_id = "cluster_unfreeze",
    tag = "clusters", params(("cluster" = String, Path, description = "name or id"), DryRun),
    request_body = NoBody,
    responses((status = 200, description = "it is let go, or a preview", body = OrPreview<Cluster>),
              (status = "4XX", body = Problem)))]
pub(crate) async fn cluster_unfreeze(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Path(cluster): Path<String>,
    Body(NoBody {}): Body<NoBody>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    turn_cluster(change, &cluster, FreezeRequest { reason: None }).await
}

async fn turn_cluster(
    change: WriteRequest,
    cluster: &str,
    ask: FreezeRequest<'_>,
) -> Answer<Response> {
    let Accepted { row, changed } = turn_platform(&change, Some(cluster), ask).await?;
    let found = change.state.app.find_cluster(change.org(), cluster).await?;
    let (found, _) = found.ok_or_else(|| Failure::not_found("cluster"))?;
    let shown = view::cluster(&found, change.now());
    change.done(changed, &Cluster { frozen: row.as_ref().map(view), ..shown })
}

/// Shows whether the whole platform is frozen. For operators.
#[utoipa::path(get, path = "/v1/platform", operation_id = "platform_get", tag = "platform",
    responses((status = 200, body = Platform), (status = "4XX", body = Problem)))]
pub(crate) async fn platform_get(
    State(state): State<AppState>,
    Scope(caller): Scope,
) -> Answer<Json<Platform>> {
    caller.must(Permission::ManagePlatform)?;
    let frozen = state.app.find_platform_freeze().await?;
    Ok(Json(Platform { frozen: frozen.as_ref().map(view) }))
}

/// Stops every act on every cluster. For operators.
#[utoipa::path(post, path = "/v1/platform/freeze", operation_id = "platform_freeze",
    tag = "platform", params(DryRun), request_body = FreezeBody,
    responses((status = 200, description = "it is frozen, or a preview", body = OrPreview<Platform>),
              (status = "4XX", body = Problem)))]
pub(crate) async fn platform_freeze(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Body(body): Body<FreezeBody>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let ask = FreezeRequest { reason: Some(reason(&body)?) };
    let Accepted { row, changed } = turn_platform(&change, None, ask).await?;
    change.done(changed, &Platform { frozen: row.as_ref().map(view) })
}

/// Lets every cluster be worked on again that is not frozen by itself. For operators.
#[utoipa::path(post, path = "/v1/platform/unfreeze", operation_id = "platform_unfreeze",
    tag = "platform", params(DryRun), request_body = NoBody,
    responses((status = 200, description = "it is let go, or a preview", body = OrPreview<Platform>),
              (status = "4XX", body = Problem)))]
pub(crate) async fn platform_unfreeze(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Body(NoBody {}): Body<NoBody>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let Accepted { row, changed } =
        turn_platform(&change, None, FreezeRequest { reason: None }).await?;
    change.done(changed, &Platform { frozen: row.as_ref().map(view) })
}

async fn turn_platform(
    change: &WriteRequest,
    cluster: Option<&str>,
    ask: FreezeRequest<'_>,
) -> Answer<Accepted<Option<Freeze>>> {
    let (context, now) = (change.context(), change.now());
    let answer = change.app().freeze_platform(cluster, ask, &context, now).await?;
    if answer.changed && !change.is_dry() {
        change.state.signals.freeze();
    }
    Ok(answer)
}

/// The reason, if it is a sentence that can be shown to anybody.
fn reason(body: &FreezeBody) -> Answer<&str> {
    let reason = body.reason.trim();
    if (1..=300).contains(&reason.chars().count()) && !reason.contains(char::is_control) {
        return Ok(reason);
    }
    let message = "must be a sentence of at most 300 characters, such as `we look into an outage`";
    Err(Failure::invalid(vec![FieldError::at("reason", message)]))
}

/// A freeze as it is shown.
pub(crate) fn view(freeze: &Freeze) -> api::Freeze {
    api::Freeze {
        scope: view::word(&freeze.scope),
        by: freeze.by.clone(),
        reason: freeze.why.clone(),
        since: freeze.since,
    }
}
