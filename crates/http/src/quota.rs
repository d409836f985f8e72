//! Quotas: the limits of an org.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::preview::OrPreview;
use trueup_api::quota::{Amounts, Quota};
use trueup_api::schema::ProjectKey;
use trueup_model::principal::Permission;
use trueup_model::{quota as model, quota};
use trueup_rules::admit::FieldError;

use crate::AppState;
use crate::budget::in_place;
use crate::front::body::Body;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::write::request::{DryRun, WriteRequest};

/// Shows the quota of the org: limit, usage and what is left.
#[utoipa::path(get, path = "/v1/quota", operation_id = "quota_get", tag = "quotas",
    responses((status = 200, body = Quota)))]
pub(crate) async fn quota_get(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<Json<Quota>> {
    caller.must(Permission::Read)?;
    Ok(Json(view(&state.app.find_quota(caller.org).await?)))
}

/// Sets the quota of an org. For operators, who name the org with `Trueup-Org`.
///
/// Existing services stay, even if they exceed it.
#[utoipa::path(put, path = "/v1/quota", operation_id = "quota_put", tag = "quotas",
    params(DryRun), request_body = Amounts,
    responses((status = 200, description = "the quota as it is now, or a preview", body = OrPreview<Quota>)))]
pub(crate) async fn quota_put(
    change: WriteRequest,
    Body(limit): Body<Amounts>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let limit = read(&limit);
    let negative: Vec<FieldError> = quota::Resource::ALL
        .into_iter()
        .filter(|resource| limit.get(*resource) < 0)
        .map(|resource| FieldError::at(resource.into_str(), "must not be negative"))
        .collect();
    if !negative.is_empty() {
        return Err(Failure::invalid(negative));
    }
    let (org, context, now) = (change.org(), change.context(), change.now());
    let (quota, changed) = change.app().put_quota(org, limit, &context, now).await?;
    change.done(changed, &view(&quota))
}

/// Shows the quota of a project: its own limits, or those of its org, with what its services use.
#[utoipa::path(get, path = "/v1/projects/{project}/quota", operation_id = "project_quota_get",
    tag = "quotas", params(("project" = ProjectKey, Path, description = "name or id")),
    responses((status = 200, body = Quota)))]
pub(crate) async fn project_quota_get(
    State(state): State<AppState>,
    caller: Caller,
    Path(project): Path<String>,
) -> Answer<Json<Quota>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let found = app.find_project_quota(caller.org, &project).await?;
    Ok(Json(view(&found.ok_or_else(|| Failure::not_found("project"))?)))
}

/// Sets the quota of a project, within that of its org.
///
/// Existing services stay, even if they exceed it.
#[utoipa::path(put, path = "/v1/projects/{project}/quota", operation_id = "project_quota_put",
    tag = "quotas", params(("project" = ProjectKey, Path, description = "name or id"), DryRun),
    request_body = Amounts,
    responses((status = 200, description = "the quota as it is now, or a preview", body = OrPreview<Quota>)))]
pub(crate) async fn project_quota_put(
    change: WriteRequest,
    Path(project): Path<String>,
    Body(limit): Body<Amounts>,
) -> Answer<Response> {
    set_project(change, &project, Some(read(&limit))).await
}

/// Removes the quota of a project: that of its org holds.
#[utoipa::path(delete, path = "/v1/projects/{project}/quota", operation_id = "project_quota_delete",
    tag = "quotas", params(("project" = ProjectKey, Path, description = "name or id"), DryRun),
    responses((status = 200, description = "the quota as it is now, or a preview", body = OrPreview<Quota>)))]
pub(crate) async fn project_quota_delete(
    change: WriteRequest,
    Path(project): Path<String>,
) -> Answer<Response> {
    set_project(change, &project, None).await
}

async fn set_project(
    change: WriteRequest,
    project: &str,
    limit: Option<quota::Amounts>,
) -> Answer<Response> {
    // Who manages the project alone does not give it more.
    let change = in_place(change, Some(project), Permission::ManageProjects)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    // It limits what the services of the project reserve.
    let limit = limit.map(|limit| quota::Amounts { projects: 0, endpoints: 0, ..limit });
    let put = change.app().put_project_quota(org, project, limit, &context, now).await;
    let (quota, changed) = put?;
    change.done(changed, &view(&quota))
}

fn read(limit: &Amounts) -> quota::Amounts {
    quota::Amounts {
        services: limit.services,
        cpu_millis: limit.cpu_millis,
        memory_mib: limit.memory_mib,
        storage_gib: limit.storage_gib,
        gpus: limit.gpus,
        projects: limit.projects,
        endpoints: limit.endpoints,
    }
}

/// A quota as it is shown.
pub(crate) fn view(quota: &model::Quota) -> Quota {
    Quota {
        limit: quota.limit,
        used: quota.used,
        left: quota.limit.less(quota.used),
        source: quota.source,
    }
}
