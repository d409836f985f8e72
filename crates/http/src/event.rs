//! Events as pages: the polling twin of the streams.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use trueup_api::event::EventList;
use trueup_api::{Code, Problem};
use trueup_model::principal::Permission;

use crate::address::Query;
use crate::caller::Caller;
use crate::problem::{Answer, Failure};
use crate::{Door, view};

/// Which events to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    /// Only those after this position; the `next` of the page before.
    after: Option<String>,
    /// At most this many, up to 1000.
    limit: Option<i64>,
}

/// Lists the org's events in order.
#[utoipa::path(get, path = "/v1/events", operation_id = "event_list", tag = "events",
    params(Page),
    responses((status = 200, body = EventList), (status = "4XX", body = Problem)))]
pub(crate) async fn event_list(
    State(door): State<Door>,
    caller: Caller,
    Query(page): Query<Page>,
) -> Answer<Json<EventList>> {
    caller.must(Permission::Read)?;
    let after = position(page.after.as_deref())?.unwrap_or(0);
    let limit = page.limit.unwrap_or(100).clamp(1, 1000);
    let events = door.app.list_events(caller.org, None, after, limit).await?;
    let next = events.last().map_or(after, |event| event.position).to_string();
    Ok(Json(EventList { items: events.iter().map(view::event).collect(), next }))
}

/// A position as it was given out.
pub(crate) fn position(text: Option<&str>) -> Answer<Option<i64>> {
    text.map(|text| {
        text.parse().ok().filter(|position| *position >= 0).ok_or_else(|| {
            Failure::new(
                Code::BadRequest,
                "a position is a whole number, as given in `sequence` or `next`",
            )
        })
    })
    .transpose()
}
