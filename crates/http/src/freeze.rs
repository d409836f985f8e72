//! Freezes: switches that stop every act on something, and looking afresh at a service.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::Problem;
use trueup_api::cluster::Cluster;
use trueup_api::freeze::{self as api, FreezeBody, Platform};
use trueup_api::service::{NoBody, Service};
use trueup_model::freeze::Freeze;
use trueup_model::principal::Permission;
use trueup_rules::admit::Breach;
use trueup_store::FreezeAsk;

use crate::address::{Path, Query};
use crate::answer::accepted;
use crate::body::Body;
use crate::caller::{Caller, Scope};
use crate::change::{DryRun, Target};
use crate::problem::{Answer, Failure};
use crate::{Door, view};

/// Stops every act on a service: it is observed, and what is asked of it waits.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/freeze",
    operation_id = "service_freeze", tag = "services",
    params(Target, DryRun), request_body = FreezeBody,
    responses((status = 200, description = "as it was, or as it would be", body = Service),
              (status = 202, description = "frozen within a second", body = Service),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_freeze(
    State(door): State<Door>,
    caller: Caller,
    Path(target): Path<Target>,
    Query(dry): Query<DryRun>,
    Body(body): Body<FreezeBody>,
) -> Answer<Response> {
    let reason = reason(&body)?;
    turn_service(&door, &caller, &target, FreezeAsk { reason: Some(reason), dry_run: dry.dry_run })
        .await
}

/// Lets a service be worked on again. One of a frozen cluster stays frozen with it.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/unfreeze",
    operation_id = "service_unfreeze", tag = "services",
    params(Target, DryRun), request_body = NoBody,
    responses((status = 200, description = "as it was, or as it would be", body = Service),
              (status = 202, description = "it is worked on again", body = Service),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_unfreeze(
    State(door): State<Door>,
    caller: Caller,
    Path(target): Path<Target>,
    Query(dry): Query<DryRun>,
    Body(NoBody {}): Body<NoBody>,
) -> Answer<Response> {
    turn_service(&door, &caller, &target, FreezeAsk { reason: None, dry_run: dry.dry_run }).await
}

async fn turn_service(
    door: &Door,
    caller: &Caller,
    target: &Target,
    ask: FreezeAsk<'_>,
) -> Answer<Response> {
    caller.must(Permission::ManageServices)?;
    let (now, asker) = (door.clock.now(), caller.asker());
    let of = (target.project.as_str(), target.service.as_str());
    let answer = door.app.freeze_service(caller.org, of, ask, &asker, now).await?;
    let changed = answer.changed && !ask.dry_run;
    if changed {
        door.signals.wake();
        door.signals.event();
    }
    Ok(accepted(door, &answer.row, changed))
}

/// Asks for a service to be looked at now: its objects are read from the cluster itself, and what differs
/// is put right. Watch it for `ReconcileChecked`.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/reconcile",
    operation_id = "service_reconcile", tag = "services",
    params(Target, DryRun), request_body = NoBody,
    responses((status = 200, description = "a dry run: nothing is looked at", body = Service),
              (status = 202, description = "it will be looked at", body = Service),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_reconcile(
    State(door): State<Door>,
    caller: Caller,
    Path(target): Path<Target>,
    Query(dry): Query<DryRun>,
    Body(NoBody {}): Body<NoBody>,
) -> Answer<Response> {
    caller.must(Permission::ManageServices)?;
    let (now, asker) = (door.clock.now(), caller.asker());
    let of = (target.project.as_str(), target.service.as_str());
    let row = door.app.reconcile_service(caller.org, of, &asker, dry.dry_run, now).await?;
    if !dry.dry_run {
        door.signals.wake();
        door.signals.event();
    }
    Ok(accepted(&door, &row, !dry.dry_run))
}

/// Stops every act on a cluster. For operators.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/freeze", operation_id = "cluster_freeze",
    tag = "clusters", params(("cluster" = String, Path, description = "name or id"), DryRun),
    request_body = FreezeBody,
    responses((status = 200, body = Cluster), (status = "4XX", body = Problem)))]
pub(crate) async fn cluster_freeze(
    State(door): State<Door>,
    Scope(caller): Scope,
    Path(cluster): Path<String>,
    Query(dry): Query<DryRun>,
    Body(body): Body<FreezeBody>,
) -> Answer<Json<Cluster>> {
    caller.must(Permission::ManagePlatform)?;
    let ask = FreezeAsk { reason: Some(reason(&body)?), dry_run: dry.dry_run };
    turn_cluster(&door, &caller, &cluster, ask).await
}

/// Lets a cluster be worked on again. For operators.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/unfreeze", operation_id = "cluster_unfreeze",
    tag = "clusters", params(("cluster" = String, Path, description = "name or id"), DryRun),
    request_body = NoBody,
    responses((status = 200, body = Cluster), (status = "4XX", body = Problem)))]
pub(crate) async fn cluster_unfreeze(
    State(door): State<Door>,
    Scope(caller): Scope,
    Path(cluster): Path<String>,
    Query(dry): Query<DryRun>,
    Body(NoBody {}): Body<NoBody>,
) -> Answer<Json<Cluster>> {
    caller.must(Permission::ManagePlatform)?;
    let ask = FreezeAsk { reason: None, dry_run: dry.dry_run };
    turn_cluster(&door, &caller, &cluster, ask).await
}

async fn turn_cluster(
    door: &Door,
    caller: &Caller,
    cluster: &str,
    ask: FreezeAsk<'_>,
) -> Answer<Json<Cluster>> {
    let frozen = turn_platform(door, caller, Some(cluster), ask).await?;
    let found = door.app.find_cluster(caller.org, cluster).await?;
    let (row, _) = found.ok_or_else(|| Failure::not_found("cluster"))?;
    let shown = view::cluster(&row, door.clock.now());
    Ok(Json(Cluster { frozen: frozen.as_ref().map(view), ..shown }))
}

/// Shows whether the whole platform is frozen. For operators.
#[utoipa::path(get, path = "/v1/platform", operation_id = "platform_get", tag = "platform",
    responses((status = 200, body = Platform), (status = "4XX", body = Problem)))]
pub(crate) async fn platform_get(
    State(door): State<Door>,
    Scope(caller): Scope,
) -> Answer<Json<Platform>> {
    caller.must(Permission::ManagePlatform)?;
    let frozen = door.app.find_platform_freeze().await?;
    Ok(Json(Platform { frozen: frozen.as_ref().map(view) }))
}

/// Stops every act on every cluster. For operators.
#[utoipa::path(post, path = "/v1/platform/freeze", operation_id = "platform_freeze",
    tag = "platform", params(DryRun), request_body = FreezeBody,
    responses((status = 200, body = Platform), (status = "4XX", body = Problem)))]
pub(crate) async fn platform_freeze(
    State(door): State<Door>,
    Scope(caller): Scope,
    Query(dry): Query<DryRun>,
    Body(body): Body<FreezeBody>,
) -> Answer<Json<Platform>> {
    caller.must(Permission::ManagePlatform)?;
    let ask = FreezeAsk { reason: Some(reason(&body)?), dry_run: dry.dry_run };
    let frozen = turn_platform(&door, &caller, None, ask).await?;
    Ok(Json(Platform { frozen: frozen.as_ref().map(view) }))
}

/// Lets every cluster be worked on again that is not frozen by itself. For operators.
#[utoipa::path(post, path = "/v1/platform/unfreeze", operation_id = "platform_unfreeze",
    tag = "platform", params(DryRun), request_body = NoBody,
    responses((status = 200, body = Platform), (status = "4XX", body = Problem)))]
pub(crate) async fn platform_unfreeze(
    State(door): State<Door>,
    Scope(caller): Scope,
    Query(dry): Query<DryRun>,
    Body(NoBody {}): Body<NoBody>,
) -> Answer<Json<Platform>> {
    caller.must(Permission::ManagePlatform)?;
    let ask = FreezeAsk { reason: None, dry_run: dry.dry_run };
    let frozen = turn_platform(&door, &caller, None, ask).await?;
    Ok(Json(Platform { frozen: frozen.as_ref().map(view) }))
}

async fn turn_platform(
    door: &Door,
    caller: &Caller,
    cluster: Option<&str>,
    ask: FreezeAsk<'_>,
) -> Answer<Option<Freeze>> {
    let now = door.clock.now();
    let answer = door.app.freeze_platform(cluster, ask, &caller.asker(), now).await?;
    if answer.changed && !ask.dry_run {
        door.signals.freeze();
        door.signals.event();
    }
    Ok(answer.row)
}

/// The reason, if it is a sentence that can be shown to anybody.
fn reason(body: &FreezeBody) -> Answer<&str> {
    let reason = body.reason.trim();
    if (1..=300).contains(&reason.chars().count()) && !reason.contains(char::is_control) {
        return Ok(reason);
    }
    let message = "must be a sentence of at most 300 characters, such as `we look into an outage`";
    Err(Failure::invalid(vec![Breach::at("reason", message)]))
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
