//! Wakes: what waits to be worked on, and what was given up. For operators of the platform.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use trueup_api::preview::OrPreview;
use trueup_api::service::NoBody;
use trueup_api::wake::{Wake, WakeList};
use trueup_api::{Code, Problem};
use trueup_model::order::Unit;
use trueup_model::principal::Permission;
use trueup_model::wake::{self as model, Lane, WakeState};
use trueup_store::WakeFilter;

use crate::event::subject;
use crate::front::body::Body;
use crate::front::caller::Scope;
use crate::front::cursor;
use crate::front::extract::{Path, Query};
use crate::front::problem::{Answer, Failure};
use crate::write::request::{DryRun, PlatformWriteRequest};
use crate::{AppState, view};

/// Which wakes to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Only those that are `queued`, `running` or `dead`.
    #[param(value_type = Option<String>)]
    state: Option<WakeState>,
    /// Only those of the lane `user_change`, `delete`, `repair` or `sweep`.
    #[param(value_type = Option<String>)]
    lane: Option<Lane>,
    /// Where to go on: the `next` of the page before.
    after: Option<String>,
    /// At most this many, up to 1000; 100 where nothing is said.
    limit: Option<i64>,
}

/// Lists what waits to be worked on: of every org, or of the one named with `Trueup-Org`. For operators.
#[utoipa::path(get, path = "/v1/wakes", operation_id = "wake_list", tag = "wakes",
    params(Wanted),
    responses((status = 200, body = WakeList), (status = "4XX", body = Problem)))]
pub(crate) async fn wake_list(
    State(state): State<AppState>,
    Scope(caller): Scope,
    Query(wanted): Query<Wanted>,
) -> Answer<Json<WakeList>> {
    caller.must(Permission::ManagePlatform)?;
    let limit = cursor::limit(wanted.limit)?;
    let after = subject(wanted.after.as_deref())?;
    let filter = WakeFilter { state: wanted.state, lane: wanted.lane, after };
    let found = state.app.list_wakes(caller.org, filter, limit).await?;
    let full = i64::try_from(found.len()).is_ok_and(|count| count == limit);
    let next = found.last().filter(|_| full).map(|wake| wake.unit.to_string());
    Ok(Json(WakeList { items: found.iter().map(wake).collect(), next }))
}

/// Gives something new tries that had met a defect too often. One that is not dead stays as it is.
/// For operators.
#[utoipa::path(post, path = "/v1/wakes/{wake}/requeue", operation_id = "wake_requeue", tag = "wakes",
    params(("wake" = String, Path, description = "the id of its service or project"), DryRun),
    request_body = NoBody,
    responses((status = 200, description = "as it was, or a preview", body = OrPreview<Wake>),
              (status = 202, description = "it is tried again", body = Wake),
              (status = "4XX", body = Problem)))]
pub(crate) async fn wake_requeue(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Path(of): Path<String>,
    Body(NoBody {}): Body<NoBody>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let of = unit(&of)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let (found, changed) = change.app().requeue_wake(org, of, &context, now).await?;
    change.accepted(changed, &wake(&found))
}

/// What a path names; what cannot be an id names nothing.
fn unit(text: &str) -> Answer<Unit> {
    match subject(Some(text)) {
        Ok(Some(unit)) => Ok(unit),
        Ok(None) | Err(_) => Err(Failure::new(
            Code::NotFound,
            "there is no such wake here; it has the id of its service or project",
        )),
    }
}

fn wake(wake: &model::Wake) -> Wake {
    Wake {
        subject: wake.unit.to_string(),
        org: wake.org.to_string(),
        cluster: wake.cluster.to_string(),
        lane: view::word(&wake.lane),
        state: view::word(&wake.state),
        due_at: wake.due_at,
        attempts: wake.attempts,
        defects: wake.poison,
        last_error: wake.last_error.clone(),
        died_at: wake.died_at,
        trace: wake.trace.clone(),
    }
}
