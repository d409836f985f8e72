//! Observed transitions of a service's pods and volumes.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use trueup_api::schema::PageLimit;
use trueup_api::transition::{self as api, TransitionList};
use trueup_model::id::TransitionId;
use trueup_model::principal::Permission;
use trueup_model::transition::Transition;

use crate::AppState;
use crate::front::caller::Caller;
use crate::front::cursor;
use crate::front::extract::{Path, Query};
use crate::front::problem::{Answer, Failure};
use crate::write::request::Target;

/// Which transitions to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// Only transitions after this one: the `next` of the previous page.
    #[param(value_type = Option<TransitionId>)]
    after: Option<String>,
    /// The page size, up to 1000; the default is 100.
    #[param(value_type = Option<PageLimit>)]
    limit: Option<i64>,
}

/// Lists the transitions of a service's pods and volumes, oldest first, and gaps in observation.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}/transitions",
    operation_id = "transition_list", tag = "services",
    params(Target, Page),
    responses((status = 200, body = TransitionList)))]
pub(crate) async fn transition_list(
    State(state): State<AppState>,
    caller: Caller,
    Path(Target { project, service }): Path<Target>,
    Query(page): Query<Page>,
) -> Answer<Json<TransitionList>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let limit = cursor::limit(page.limit)?;
    let after = page.after.as_deref().map(cursor::id).transpose()?;
    let found = app.list_transitions(caller.org, (&project, &service), after, limit).await?;
    let found = found.ok_or_else(|| Failure::not_found("service"))?;
    let full = usize::try_from(limit).is_ok_and(|limit| found.len() == limit);
    let next = found.last().filter(|_| full).map(|last| last.id.to_string());
    Ok(Json(TransitionList { items: found.into_iter().map(shown).collect(), next }))
}

pub(crate) fn shown(transition: Transition) -> api::Transition {
    api::Transition {
        id: transition.id.to_string(),
        kind: transition.kind,
        name: transition.name,
        uid: transition.uid,
        what: transition.what,
        at: transition.at,
        seen_at: transition.seen_at,
        after: transition.after,
        resource_version: transition.resource_version,
        observer: transition.observer,
        epoch: transition.epoch,
    }
}
