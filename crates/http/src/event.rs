//! Events as pages: the polling twin of the streams.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use trueup_api::event::EventList;
use trueup_api::{Code, Problem};
use trueup_model::order::Unit;
use trueup_model::principal::Permission;
use trueup_store::{EventOrder, EventQuery};

use crate::front::caller::Caller;
use crate::front::extract::Query;
use crate::front::problem::{Answer, Failure};
use crate::{AppState, view};

/// Longer than the name of any type.
const TYPE_LENGTH: usize = 64;

/// Which events to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    /// Only those after this position; the `next` of the page before.
    after: Option<String>,
    /// Only those before this position; with `order=newest` the `next` of the page before.
    before: Option<String>,
    /// `oldest` (first; the default) or `newest`.
    #[param(inline)]
    order: Option<Order>,
    /// At most this many, up to 1000.
    limit: Option<i64>,
    /// Only those about this service or project (`svc_…`, `prj_…`).
    subject: Option<String>,
    /// Only those of this type, such as `ServiceQueued`.
    r#type: Option<String>,
    /// Only those that speak of this generation of the subject.
    generation: Option<i64>,
}

/// Which end comes first.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum Order {
    Oldest,
    Newest,
}

/// Lists the org's events in order.
#[utoipa::path(get, path = "/v1/events", operation_id = "event_list", tag = "events",
    params(Page),
    responses((status = 200, body = EventList), (status = "4XX", body = Problem)))]
pub(crate) async fn event_list(
    State(state): State<AppState>,
    caller: Caller,
    Query(page): Query<Page>,
) -> Answer<Json<EventList>> {
    caller.must(Permission::Read)?;
    let query = page.query()?;
    let events = state.app.list_events(caller.org, &query).await?;
    let from = match query.order {
        EventOrder::OldestFirst => query.after,
        EventOrder::NewestFirst => query.before,
    };
    let next = events.last().map(|event| event.position).or(from).unwrap_or(0).to_string();
    Ok(Json(EventList { items: events.iter().map(view::event).collect(), next }))
}

impl Page {
    fn query(&self) -> Answer<EventQuery> {
        if self.generation.is_some() && self.subject.is_none() {
            let detail = "a generation is one of a service or project; name it with `subject`";
            return Err(Failure::new(Code::BadRequest, detail));
        }
        Ok(EventQuery {
            of: subject(self.subject.as_deref())?,
            kind: kind(self.r#type.as_deref())?,
            generation: self.generation,
            after: position(self.after.as_deref())?,
            before: position(self.before.as_deref())?,
            order: match self.order {
                Some(Order::Newest) => EventOrder::NewestFirst,
                Some(Order::Oldest) | None => EventOrder::OldestFirst,
            },
            limit: self.limit.unwrap_or(100).clamp(1, 1000),
        })
    }
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

/// What events are about. One of another org is none here, and its list is empty.
pub(crate) fn subject(text: Option<&str>) -> Answer<Option<Unit>> {
    let Some(text) = text else { return Ok(None) };
    let service = text.parse().map(Unit::Service);
    let unit = service.or_else(|_| text.parse().map(Unit::Project));
    unit.map(Some).map_err(|_| {
        Failure::new(
            Code::BadRequest,
            "a subject is the id of a service (svc_…) or project (prj_…)",
        )
    })
}

/// A type, by its name or as it stands in an event.
pub(crate) fn kind(text: Option<&str>) -> Answer<Option<String>> {
    let Some(text) = text else { return Ok(None) };
    let name = text.strip_prefix("dev.trueup.").unwrap_or(text);
    let name = name.split_once(".v").map_or(name, |(name, _)| name);
    let is_name = (1..=TYPE_LENGTH).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_name {
        Ok(Some(name.to_owned()))
    } else {
        Err(Failure::new(Code::BadRequest, "a type is a name such as `ServiceQueued`"))
    }
}
