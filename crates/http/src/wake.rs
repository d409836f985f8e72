//! Wakes: the work queue, with its dead items. For operators.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use trueup_api::Code;
use trueup_api::preview::OrPreview;
use trueup_api::schema::{PageLimit, UnitKey};
use trueup_api::service::NoBody;
use trueup_api::wake::{Wake, WakeList};
use trueup_model::order::Unit;
use trueup_model::principal::Permission;
use trueup_model::subject::Subject;
use trueup_model::wake::{self as model, Lane, WakeState};
use trueup_store::WakeFilter;

use crate::AppState;
use crate::front::body::Body;
use crate::front::caller::Scope;
use crate::front::cursor;
use crate::front::extract::{Path, Query};
use crate::front::problem::{Answer, Failure};
use crate::write::request::{DryRun, PlatformWriteRequest};

/// Which wakes to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Only wakes in this state: `queued`, `running` or `dead`.
    state: Option<WakeState>,
    /// Only wakes in this lane: `user_change`, `delete`, `repair` or `sweep`.
    lane: Option<Lane>,
    /// The `next` of the previous page.
    #[param(value_type = Option<UnitKey>)]
    after: Option<String>,
    /// The page size, up to 1000; the default is 100.
    #[param(value_type = Option<PageLimit>)]
    limit: Option<i64>,
}

/// Lists the work queue: of every org, or of the one named with `Trueup-Org`. For operators.
#[utoipa::path(get, path = "/v1/wakes", operation_id = "wake_list", tag = "wakes",
    params(Wanted),
    responses((status = 200, body = WakeList)))]
pub(crate) async fn wake_list(
    State(state): State<AppState>,
    Scope(caller): Scope,
    Query(wanted): Query<Wanted>,
) -> Answer<Json<WakeList>> {
    caller.must(Permission::ReadPlatform)?;
    let limit = cursor::limit(wanted.limit)?;
    let after = wanted.after.as_deref().map(cursor::unit).transpose()?;
    let filter = WakeFilter { state: wanted.state, lane: wanted.lane, after };
    let found = state.app.list_wakes(caller.org, filter, limit).await?;
    let full = i64::try_from(found.len()).is_ok_and(|count| count == limit);
    let next = found.last().filter(|_| full).map(|wake| wake.unit.to_string());
    Ok(Json(WakeList { items: found.iter().map(wake).collect(), next }))
}

/// Requeues a dead wake. Other wakes are not changed. For operators.
#[utoipa::path(post, path = "/v1/wakes/{wake}/requeue", operation_id = "wake_requeue", tag = "wakes",
    params(("wake" = String, Path, description = "id of its service or project"), DryRun),
    request_body = NoBody,
    responses((status = 200, description = "not dead, or a preview", body = OrPreview<Wake>),
              (status = 202, description = "requeued", body = Wake)))]
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

/// The unit in a path; 404 if it is not an id.
fn unit(text: &str) -> Answer<Unit> {
    let unit = text.parse().ok().and_then(Subject::unit);
    let detail = "no such wake; a wake has the id of its service or project";
    unit.ok_or_else(|| Failure::new(Code::NotFound, detail))
}

fn wake(wake: &model::Wake) -> Wake {
    Wake {
        subject: wake.unit.to_string(),
        org: wake.org.to_string(),
        cluster: wake.cluster.to_string(),
        lane: wake.lane,
        state: wake.state,
        due_at: wake.due_at,
        attempts: wake.attempts,
        defects: wake.poison,
        last_error: wake.last_error.clone(),
        died_at: wake.died_at,
        trace: wake.trace.clone(),
    }
}
