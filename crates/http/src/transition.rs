//! What happened to a service's pods and disks, as it was seen.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use trueup_api::transition::{self as api, TransitionList};
use trueup_api::{Code, Problem};
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
    /// Only those after this one: the `next` of the page before.
    after: Option<String>,
    /// At most this many, up to 1000; 100 where nothing is said.
    limit: Option<i64>,
}

/// Lists what happened to a service's pods and disks, oldest first, with the times in which nobody
/// watched.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}/transitions",
    operation_id = "transition_list", tag = "services",
    params(Target, Page),
    responses((status = 200, body = TransitionList), (status = "4XX", body = Problem)))]
pub(crate) async fn transition_list(
    State(state): State<AppState>,
    caller: Caller,
    Path(Target { project, service }): Path<Target>,
    Query(page): Query<Page>,
) -> Answer<Json<TransitionList>> {
    caller.must(Permission::Read)?;
    let limit = cursor::limit(page.limit)?;
    let after = page.after.as_deref().map(place).transpose()?;
    let found = state.app.list_transitions(caller.org, (&project, &service), after, limit).await?;
    let found = found.ok_or_else(|| Failure::not_found("service"))?;
    let full = usize::try_from(limit).is_ok_and(|limit| found.len() == limit);
    let next = found.last().filter(|_| full).map(|last| last.id.to_string());
    Ok(Json(TransitionList { items: found.into_iter().map(shown).collect(), next }))
}

fn place(text: &str) -> Answer<TransitionId> {
    text.parse().map_err(|_| {
        Failure::new(Code::BadRequest, "`after` takes the `next` of a page as it was given")
    })
}

fn shown(transition: Transition) -> api::Transition {
    let mut detail = serde_json::to_value(&transition.what).unwrap_or_default();
    let what = detail.as_object_mut().and_then(|fields| fields.remove("is"));
    let what = what.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    api::Transition {
        id: transition.id.to_string(),
        kind: transition.kind.to_string(),
        name: transition.name,
        uid: transition.uid,
        what,
        detail,
        at: transition.at,
        seen_at: transition.seen_at,
        after: transition.after,
        resource_version: transition.resource_version,
        observer: transition.observer,
        epoch: transition.epoch,
    }
}
