//! Releases of a service.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use trueup_api::release as api;
use trueup_api::release::ReleaseList;
use trueup_api::schema::PageLimit;
use trueup_model::principal::Permission;
use trueup_model::release::Release;

use crate::AppState;
use crate::front::caller::Caller;
use crate::front::cursor;
use crate::front::extract::{Path, Query};
use crate::front::problem::{Answer, Failure};
use crate::write::request::Target;

/// Which releases to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// Only releases before this generation: the `next` of the previous page.
    before: Option<i64>,
    /// The page size, up to 1000; the default is 100.
    #[param(value_type = Option<PageLimit>)]
    limit: Option<i64>,
}

/// Lists the releases of a service, newest first: the accepted spec of each generation.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}/releases",
    operation_id = "release_list", tag = "services",
    params(Target, Page),
    responses((status = 200, body = ReleaseList)))]
pub(crate) async fn release_list(
    State(state): State<AppState>,
    caller: Caller,
    Path(Target { project, service }): Path<Target>,
    Query(page): Query<Page>,
) -> Answer<Json<ReleaseList>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let limit = cursor::limit(page.limit)?;
    let found = app.list_releases(caller.org, (&project, &service), page.before, limit).await?;
    let releases = found.ok_or_else(|| Failure::not_found("service"))?;
    let full = usize::try_from(limit).is_ok_and(|limit| releases.len() == limit);
    let oldest = releases.last().map(|release| release.generation);
    let next = oldest.filter(|generation| full && *generation > 1);
    Ok(Json(ReleaseList { items: releases.iter().map(view).collect(), next }))
}

fn view(release: &Release) -> api::Release {
    api::Release {
        id: release.id.to_string(),
        generation: release.generation,
        action: release.action.clone(),
        principal: release.principal.clone(),
        accepted_at: release.accepted_at,
        template: release.template.to_string(),
        plan: release.spec.plan.as_ref().map(ToString::to_string),
        price_version: release.price_version.map(|version| version.to_string()),
        parameters: release.parameters.clone(),
        desired: release.desired,
        spec: release.spec.clone(),
    }
}
