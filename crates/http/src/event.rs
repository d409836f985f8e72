//! Events as pages, for clients that poll instead of watching.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use trueup_api::Code;
use trueup_api::event::{CloudEvent, EventList};
use trueup_api::schema::{EventKey, EventTypeName, Generation, PageLimit, Position};
use trueup_model::event::{wire_source, wire_type};
use trueup_model::principal::Permission;
use trueup_model::subject::{Subject, UnknownSubject};
use trueup_store::{EventOrder, EventQuery, SealedEvent};

use crate::AppState;
use crate::front::caller::Caller;
use crate::front::extract::{Path, Query, id};
use crate::front::problem::{Answer, Failure};

/// Longer than the name of any type.
const TYPE_LENGTH: usize = 64;

/// Which events to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    /// Only events after this position: the `next` of the previous page.
    #[param(value_type = Option<Position>)]
    after: Option<String>,
    /// Only events before this position: with `order=newest` the `next` of the previous page.
    #[param(value_type = Option<Position>)]
    before: Option<String>,
    /// `oldest` first (the default) or `newest` first.
    #[param(inline)]
    order: Option<Order>,
    /// The page size, up to 1000; the default is 100.
    #[param(value_type = Option<PageLimit>)]
    limit: Option<i64>,
    /// Only events about this service or project (`svc_…`, `prj_…`).
    subject: Option<String>,
    /// Only events of this type, such as `ServiceQueued`.
    #[param(value_type = Option<EventTypeName>)]
    r#type: Option<String>,
    /// Only events about this generation of the subject.
    #[param(value_type = Option<Generation>)]
    generation: Option<i64>,
}

/// The order of a page.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum Order {
    Oldest,
    Newest,
}

/// Lists the org's events in order.
#[utoipa::path(get, path = "/v1/events", operation_id = "event_list", tag = "events",
    params(Page),
    responses((status = 200, body = EventList)))]
pub(crate) async fn event_list(
    State(state): State<AppState>,
    caller: Caller,
    Query(page): Query<Page>,
) -> Answer<Json<EventList>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let query = page.query()?;
    let events = app.list_events(caller.org, &query).await?;
    let from = match query.order {
        EventOrder::OldestFirst => query.after,
        EventOrder::NewestFirst => query.before,
    };
    let next = events.last().map(|event| event.position).or(from).unwrap_or(0).to_string();
    Ok(Json(EventList { items: events.iter().map(view).collect(), next }))
}

/// Shows an event; its id names it in explanations, receipts and causes.
#[utoipa::path(get, path = "/v1/events/{event}", operation_id = "event_get", tag = "events",
    params(("event" = EventKey, Path, description = "id (`evt_…`)")),
    responses((status = 200, body = CloudEvent)))]
pub(crate) async fn event_get(
    State(state): State<AppState>,
    caller: Caller,
    Path(event): Path<String>,
) -> Answer<Json<CloudEvent>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let found = app.find_event(caller.org, id(&event)).await?;
    Ok(Json(view(&found.ok_or_else(|| Failure::not_found("event"))?)))
}

impl Page {
    fn query(&self) -> Answer<EventQuery> {
        if self.generation.is_some() && self.subject.is_none() {
            let detail = "`generation` needs a service or project; name it with `subject`";
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

/// Parses a position.
pub(crate) fn position(text: Option<&str>) -> Answer<Option<i64>> {
    text.map(|text| {
        text.parse().ok().filter(|position| *position >= 0).ok_or_else(|| {
            Failure::new(
                Code::BadRequest,
                "a position must be a whole number, from `sequence` or `next`",
            )
        })
    })
    .transpose()
}

/// Parses a subject. For a subject of another org the list is empty.
pub(crate) fn subject(text: Option<&str>) -> Answer<Option<Subject>> {
    let parsed = text.map(str::parse).transpose();
    parsed.map_err(|wrong: UnknownSubject| Failure::new(Code::BadRequest, wrong.to_string()))
}

/// Parses an event type: its name, or the full type of a CloudEvent.
pub(crate) fn kind(text: Option<&str>) -> Answer<Option<String>> {
    let Some(text) = text else { return Ok(None) };
    let name = text.strip_prefix("dev.trueup.").unwrap_or(text);
    let name = name.split_once(".v").map_or(name, |(name, _)| name);
    let is_name = (1..=TYPE_LENGTH).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_name {
        Ok(Some(name.to_owned()))
    } else {
        Err(Failure::new(Code::BadRequest, "a type must be a name such as `ServiceQueued`"))
    }
}

/// An event as it is shown: stored names and data are never changed, because they are hashed.
pub(crate) fn view(event: &SealedEvent) -> CloudEvent {
    CloudEvent {
        specversion: "1.0".to_owned(),
        id: event.id.to_string(),
        source: wire_source(&event.source),
        kind: wire_type(&event.kind, event.version),
        subject: event.subject.to_string(),
        time: event.at,
        datacontenttype: "application/json".to_owned(),
        sequence: event.position.to_string(),
        generation: event.generation,
        orgid: event.org.to_string(),
        traceid: event.trace.clone(),
        causeid: event.cause.map(|cause| cause.to_string()),
        hash: event.hash.to_string(),
        principalname: event.principal_name.clone(),
        data: event.body.clone(),
    }
}
