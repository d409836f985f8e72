//! Watching: events as they are sealed, in order and without gaps, of one service or of the org.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures::Stream;
use futures::stream::unfold;
use serde::Deserialize;
use trueup_api::{Code, Problem};
use trueup_model::order::Unit;
use trueup_model::principal::Permission;
use trueup_store::{Error, EventQuery};

use crate::AppState;
use crate::event::{kind, position, subject};
use crate::front::caller::Caller;
use crate::front::extract::{Path, Query};
use crate::front::problem::{Answer, Failure};
use crate::stream::feed::{Ahead, FeedEvent, Standing, Watcher};
use crate::stream::limit::Open;

/// A comment line this often, so that silence is told apart from a broken connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const BATCH: usize = 200;

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
    State(state): State<AppState>,
    caller: Caller,
    Path((project, service)): Path<(String, String)>,
    Query(from): Query<From>,
    headers: HeaderMap,
) -> Answer<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    caller.must(Permission::Read)?;
    let found = state.app.find_service(caller.org, &project, &service).await?;
    let service = found.ok_or_else(|| Failure::not_found("service"))?.row.service;
    let unit = Unit::Service(service.id);
    let after = match asked_position(&state, &caller, &headers, from.after.as_deref()).await? {
        Some(after) => after,
        None => state.app.generation_position(caller.org, unit, service.generation).await?,
    };
    let query = EventQuery { of: Some(unit), ..EventQuery::default() };
    Tail::open(state, caller, query, after)
}

/// Streams the org's events.
#[utoipa::path(get, path = "/v1/events/watch", operation_id = "event_watch", tag = "events",
    params(Wanted),
    responses((status = 200, description = "CloudEvents as server-sent events",
               content_type = "text/event-stream", body = trueup_api::event::CloudEvent),
              (status = "4XX", body = Problem)))]
pub(crate) async fn event_watch(
    State(state): State<AppState>,
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
    let after = match asked_position(&state, &caller, &headers, wanted.after.as_deref()).await? {
        Some(after) => after,
        None => state.app.last_position(caller.org).await?,
    };
    Tail::open(state, caller, query, after)
}

/// Where the caller wants to go on. A position that was never given out is refused: whoever has one
/// would miss what comes until then, and a database that was set back must not hide that it was.
async fn asked_position(
    state: &AppState,
    caller: &Caller,
    headers: &HeaderMap,
    after: Option<&str>,
) -> Answer<Option<i64>> {
    let last = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    let Some(asked) = position(last.or(after))? else { return Ok(None) };
    let end = state.app.last_position(caller.org).await?;
    if asked > end {
        let detail = format!(
            "position {asked} was never given out here: the last one is {end}; begin without a \
             position, and read again what you rely on"
        );
        return Err(Failure::new(Code::BadRequest, detail));
    }
    Ok(Some(asked))
}

fn sse(told: &FeedEvent) -> Event {
    Event::default().id(told.position.to_string()).event(&told.kind).data(&told.data)
}

/// A reader at a position. It holds one batch at most: a slow reader slows only itself.
struct Tail {
    state: AppState,
    caller: Caller,
    query: EventQuery,
    /// Everything up to here was looked at.
    after: i64,
    buffer: VecDeque<Arc<FeedEvent>>,
    watcher: Watcher,
    /// Counts this stream for as long as it is there.
    _open: Open,
}

impl Tail {
    /// A stream of what the query asks for, from a position on.
    fn open(
        state: AppState,
        caller: Caller,
        query: EventQuery,
        after: i64,
    ) -> Answer<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
        let open = state.streams.open(caller.org)?;
        let watcher = state.streams.feeds().join(&state, &caller);
        let buffer = VecDeque::new();
        let tail = Self { state, caller, query, after, buffer, watcher, _open: open };
        let events = unfold(tail, |mut tail| async move {
            let told = tail.next().await?;
            Some((Ok(sse(&told)), tail))
        });
        Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
    }

    /// The next event, or nothing when the stream must end: the process stops or the token died.
    ///
    /// Whether it may be told is looked up for each one, for a slow reader takes the last of a batch
    /// long after the first. Where that is not known, nothing is told.
    async fn next(&mut self) -> Option<Arc<FeedEvent>> {
        loop {
            if self.state.stop.is_cancelled() {
                return None;
            }
            self.watcher.look();
            match self.watcher.standing(&self.caller, self.state.clock.monotonic()) {
                Standing::Over => return None,
                Standing::Good if !self.buffer.is_empty() => return self.buffer.pop_front(),
                Standing::Good => {
                    if self.fill().await? {
                        continue;
                    }
                }
                Standing::Doubtful => {}
            }
            self.watcher.news().await?;
        }
    }

    /// Takes what comes next, and says whether to go on; nothing if the token died.
    async fn fill(&mut self) -> Option<bool> {
        match self.watcher.after(&self.query, self.after, BATCH) {
            Ahead::Unread => Some(false),
            Ahead::Known(found, at) => {
                (self.buffer, self.after) = (found, at);
                Some(!self.buffer.is_empty())
            }
            Ahead::Behind(end) => match self.catch_up(end).await {
                Ok(is_valid) => is_valid.then_some(true),
                Err(error) => {
                    tracing::debug!(%error, "a stream cannot read events now");
                    Some(false)
                }
            },
        }
    }

    /// Reads from the database what is not kept any more, and asks for the token after that.
    async fn catch_up(&mut self, end: i64) -> Result<bool, Error> {
        let limit = i64::try_from(BATCH).unwrap_or(i64::MAX);
        let query = EventQuery { after: Some(self.after), limit, ..self.query.clone() };
        let events = self.state.app.list_events(self.caller.org, &query).await?;
        if !self.caller.is_still_valid(&self.state).await? {
            return Ok(false);
        }
        let last = events.last().map_or(self.after, |event| event.position);
        self.after = if events.len() < BATCH { last.max(end) } else { last };
        self.buffer = events.iter().map(|event| Arc::new(FeedEvent::new(event))).collect();
        Ok(true)
    }
}
