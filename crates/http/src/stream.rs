//! Watching: events as they are sealed, in order and without gaps, of one service or of the org.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures::Stream;
use futures::stream::unfold;
use serde::Deserialize;
use tokio::sync::watch;
use trueup_api::{Code, Problem};
use trueup_model::order::Unit;
use trueup_model::principal::Permission;
use trueup_store::{Error, EventQuery, SealedEvent};

use crate::address::{Path, Query};
use crate::caller::Caller;
use crate::event::{kind, position, subject};
use crate::problem::{Answer, Failure};
use crate::streams::Open;
use crate::{Door, view};

/// A comment line this often, so that silence is told apart from a broken connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The safety net for a signal that got lost, and the longest that a dead token is believed.
const POLL: Duration = Duration::from_secs(1);
const BATCH: i64 = 200;

/// Where to begin.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct From {
    /// Only events after this position. `Last-Event-ID` says the same and wins.
    after: Option<String>,
}

/// Where to begin, and what to leave out.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Only events after this position; without one, only new events. `Last-Event-ID` says the same
    /// and wins.
    after: Option<String>,
    /// Only those about this service or project (`svc_…`, `prj_…`).
    subject: Option<String>,
    /// Only those of this type, such as `ServiceQueued`.
    r#type: Option<String>,
}

/// Streams a service's events; without a position, from the beginning of its current generation.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}/watch",
    operation_id = "service_watch", tag = "services",
    params(("project" = String, Path, description = "name or id"),
           ("service" = String, Path, description = "name or id"), From),
    responses((status = 200, description = "CloudEvents as server-sent events",
               content_type = "text/event-stream", body = trueup_api::event::CloudEvent),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_watch(
    State(door): State<Door>,
    caller: Caller,
    Path((project, service)): Path<(String, String)>,
    Query(from): Query<From>,
    headers: HeaderMap,
) -> Answer<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    caller.must(Permission::Read)?;
    let found = door.app.find_service(caller.org, &project, &service).await?;
    let service = found.ok_or_else(|| Failure::not_found("service"))?.row.service;
    let unit = Unit::Service(service.id);
    let after = match asked_position(&door, &caller, &headers, from.after.as_deref()).await? {
        Some(after) => after,
        None => door.app.generation_position(caller.org, unit, service.generation).await?,
    };
    let query = EventQuery { of: Some(unit), ..EventQuery::default() };
    Tail::open(door, caller, query, after)
}

/// Streams the org's events.
#[utoipa::path(get, path = "/v1/events/watch", operation_id = "event_watch", tag = "events",
    params(Wanted),
    responses((status = 200, description = "CloudEvents as server-sent events",
               content_type = "text/event-stream", body = trueup_api::event::CloudEvent),
              (status = "4XX", body = Problem)))]
pub(crate) async fn event_watch(
    State(door): State<Door>,
    caller: Caller,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Answer<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    caller.must(Permission::Read)?;
    let query = EventQuery {
        of: subject(wanted.subject.as_deref())?,
        kind: kind(wanted.r#type.as_deref())?,
        ..EventQuery::default()
    };
    let after = match asked_position(&door, &caller, &headers, wanted.after.as_deref()).await? {
        Some(after) => after,
        None => door.app.last_position(caller.org).await?,
    };
    Tail::open(door, caller, query, after)
}

/// Where the caller wants to go on. A position that was never given out is refused: whoever has one
/// would miss what comes until then, and a database that was set back must not hide that it was.
async fn asked_position(
    door: &Door,
    caller: &Caller,
    headers: &HeaderMap,
    after: Option<&str>,
) -> Answer<Option<i64>> {
    let last = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    let Some(asked) = position(last.or(after))? else { return Ok(None) };
    let end = door.app.last_position(caller.org).await?;
    if asked > end {
        let detail = format!(
            "position {asked} was never given out here: the last one is {end}; begin without a \
             position, and read again what you rely on"
        );
        return Err(Failure::new(Code::BadRequest, detail));
    }
    Ok(Some(asked))
}

fn sse(event: &SealedEvent) -> Event {
    let data = serde_json::to_string(&view::event(event)).unwrap_or_default();
    Event::default().id(event.position.to_string()).event(&event.kind).data(data)
}

/// A reader at a position. It holds one batch at most: a slow reader slows only itself.
struct Tail {
    door: Door,
    caller: Caller,
    query: EventQuery,
    seals: watch::Receiver<u64>,
    buffer: VecDeque<SealedEvent>,
    /// When the token was last found to be good, by the monotonic clock.
    checked: Duration,
    /// Counts this stream for as long as it is there.
    _open: Open,
}

impl Tail {
    /// A stream of what the query asks for, from a position on.
    fn open(
        door: Door,
        caller: Caller,
        query: EventQuery,
        after: i64,
    ) -> Answer<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
        let tail = Self {
            _open: door.streams.open(caller.org)?,
            seals: door.signals.seals(),
            checked: door.clock.monotonic(),
            buffer: VecDeque::new(),
            query: EventQuery { after: Some(after), limit: BATCH, ..query },
            caller,
            door,
        };
        let events = unfold(tail, |mut tail| async move {
            let event = tail.next().await?;
            Some((Ok(sse(&event)), tail))
        });
        Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
    }

    /// The next event, or nothing when the stream must end: the process stops or the token died.
    async fn next(&mut self) -> Option<SealedEvent> {
        loop {
            if self.door.stop.is_cancelled() {
                return None;
            }
            if !self.buffer.is_empty() && self.is_allowed().await {
                let event = self.buffer.pop_front()?;
                self.query.after = Some(event.position);
                return Some(event);
            }
            self.buffer.clear();
            self.seals.mark_unchanged();
            match self.read().await {
                Ok(Some(events)) if events.is_empty() => {}
                Ok(Some(events)) => {
                    self.buffer = events.into();
                    continue;
                }
                Ok(None) => return None,
                Err(error) => tracing::debug!(%error, "a stream cannot read events now"),
            }
            tokio::select! {
                () = self.door.stop.cancelled() => return None,
                sealed = self.seals.changed() => sealed.ok()?,
                () = self.door.clock.sleep(POLL) => {}
            }
        }
    }

    /// Whether the event that is next may be told: asked for each one, for a slow reader takes the
    /// last of a batch long after the first. Where it cannot be asked, nothing is told.
    async fn is_allowed(&mut self) -> bool {
        let now = self.door.clock.monotonic();
        if now.saturating_sub(self.checked) < POLL {
            return true;
        }
        let valid = self.is_valid().await.unwrap_or(false);
        if valid {
            self.checked = now;
        }
        valid
    }

    /// The next events, or nothing if the token died: asked each time, so that an idle stream ends too.
    async fn read(&mut self) -> Result<Option<Vec<SealedEvent>>, Error> {
        let events = self.door.app.list_events(self.caller.org, &self.query).await?;
        let now = self.door.clock.monotonic();
        if !self.is_valid().await? {
            return Ok(None);
        }
        self.checked = now;
        Ok(Some(events))
    }

    async fn is_valid(&self) -> Result<bool, Error> {
        let may_read = self.caller.must(Permission::Read).is_ok();
        Ok(may_read && self.caller.is_still_valid(&self.door).await?)
    }
}
