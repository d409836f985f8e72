//! Releases of a service.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use trueup_api::Problem;
use trueup_api::release::ReleaseList;
use trueup_model::principal::Permission;

use crate::front::caller::Caller;
use crate::front::cursor;
use crate::front::extract::{Path, Query};
use crate::front::problem::{Answer, Failure};
use crate::write::request::Target;
use crate::{AppState, view};

/// Which releases to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// Only those before this generation: the `next` of the page before.
    before: Option<i64>,
    /// At most this many, up to 1000; 100 where nothing is said.
    limit: Option<i64>,
}

/// Lists what was promised under each generation of a service, newest first.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}/releases",
    operation_id = "release_list", tag = "services",
    params(Target, Page),
    responses((status = 200, body = ReleaseList), (status = "4XX", body = Problem)))]
pub(crate) async fn release_list(
    State(state): State<AppState>,
    caller: Caller,
    Path(Target { project, service }): Path<Target>,
    Query(page): Query<Page>,
) -> Answer<Json<ReleaseList>> {
    caller.must(Permission::Read)?;
    let limit = cursor::limit(page.limit)?;
    let found =
        state.app.list_releases(caller.org, (&project, &service), page.before, limit).await?;
    let releases = found.ok_or_else(|| Failure::not_found("service"))?;
    let full = usize::try_from(limit).is_ok_and(|limit| releases.len() == limit);
    let oldest = releases.last().map(|release| release.generation);
    let next = oldest.filter(|generation| full && *generation > 1);
    Ok(Json(ReleaseList { items: releases.iter().map(view::release).collect(), next }))
}
