//! Event streams of a service or of the org: sealed events, in order and without gaps.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures::Stream;
use futures::stream::unfold;
use serde::Deserialize;
use trueup_api::Code;
use trueup_api::schema::{ProjectKey, ServiceKey};
use trueup_model::OrgId;
use trueup_model::order::Unit;
use trueup_model::principal::Permission;
use trueup_store::{App, Error, EventQuery};

use crate::AppState;
use crate::event::{kind, position, subject};
use crate::front::caller::Caller;
use crate::front::extract::{Path, Query};
use crate::front::problem::{Answer, Failure};
use crate::stream::feed::{Ahead, FeedEvent, Watcher};
use crate::stream::limit::Open;
use crate::stream::token_watch::StreamToken;
use crate::stream::watched_token::{StreamEnd, TokenStatus, WatchedToken, check};

/// The interval of comment lines, which let the client detect a broken connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const BATCH: usize = 200;

/// The query parameters for watching a service.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct From {
    /// Only events after this position. The header `Last-Event-ID` has the same meaning and wins.
    after: Option<String>,
}

/// The query parameters for watching the org.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Only events after this position; without one, only new events. The header `Last-Event-ID`
    /// has the same meaning and wins.
    after: Option<String>,
    /// Only events about this service or project (`svc_…`, `prj_…`).
    subject: Option<String>,
    /// Only events of this type, such as `ServiceQueued`.
    r#type: Option<String>,
}

/// Streams a service's events; without a position, from the start of its current generation.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}/watch",
    operation_id = "service_watch", tag = "services",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("service" = ServiceKey, Path, description = "name or id"), From),
    extensions(("x-problems" = json!([Code::NameTaken, Code::TooManyStreams]))),
    responses((status = 200, description = "CloudEvents as server-sent events",
               content_type = "text/event-stream", body = trueup_api::event::CloudEvent)))]
pub(crate) async fn service_watch(
    State(state): State<AppState>,
    caller: Caller,
    Path((project, service)): Path<(String, String)>,
    Query(from): Query<From>,
    headers: HeaderMap,
) -> Answer<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let found = app.find_service(caller.org, &project, &service).await?;
    let service = found.ok_or_else(|| Failure::not_found("service"))?.row.service;
    let unit = Unit::Service(service.id);
    let after = match requested_position(&app, &caller, &headers, from.after.as_deref()).await? {
        Some(after) => after,
        None => app.generation_position(caller.org, unit, service.generation).await?,
    };
    let query = EventQuery { of: Some(unit.into()), ..EventQuery::default() };
    Tail::open(state, app, &caller, query, after)
}

/// Streams the org's events.
#[utoipa::path(get, path = "/v1/events/watch", operation_id = "event_watch", tag = "events",
    params(Wanted),
    extensions(("x-problems" = json!([Code::TooManyStreams]))),
    responses((status = 200, description = "CloudEvents as server-sent events",
               content_type = "text/event-stream", body = trueup_api::event::CloudEvent)))]
pub(crate) async fn event_watch(
    State(state): State<AppState>,
    caller: Caller,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Answer<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let query = EventQuery {
        of: subject(wanted.subject.as_deref())?,
        kind: kind(wanted.r#type.as_deref())?,
        ..EventQuery::default()
    };
    let after = match requested_position(&app, &caller, &headers, wanted.after.as_deref()).await? {
        Some(after) => after,
        None => app.last_position(caller.org).await?,
    };
    Tail::open(state, app, &caller, query, after)
}

/// The position to resume from, if the request names one.
///
/// A position beyond the end is rejected: the caller would miss the events up to it, and it shows
/// that the database was restored from a backup.
async fn requested_position(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    after: Option<&str>,
) -> Answer<Option<i64>> {
    let last = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    let Some(wanted) = position(last.or(after))? else { return Ok(None) };
    let end = app.last_position(caller.org).await?;
    if wanted > end {
        let detail = format!(
            "position {wanted} does not exist: the last event is at {end}; if the database was \
             restored, start without a position and re-read your state"
        );
        return Err(Failure::new(Code::BadRequest, detail));
    }
    Ok(Some(wanted))
}

fn sse(event: &FeedEvent) -> Event {
    Event::default().id(event.position.to_string()).event(&event.kind).data(&event.data)
}

/// A stream of events to one client.
struct Tail {
    state: AppState,
    token: StreamToken,
    events: EventReader,
    /// Counts this stream while it is open.
    _open: Open,
}

impl Tail {
    /// A stream of the events that match a query, after a position.
    fn open(
        state: AppState,
        app: App,
        caller: &Caller,
        query: EventQuery,
        after: i64,
    ) -> Answer<Sse<impl Stream<Item = Result<Event, Infallible>> + use<>>> {
        let open = state.streams.open(caller.org, 1)?;
        let token = state.streams.tokens().join(&state, caller);
        let events = EventReader::new(&state, (app, caller.org), token.watched(), query, after);
        let tail = Self { state, token, events, _open: open };
        let sent = unfold(Some(tail), |tail| async move {
            let mut tail = tail?;
            let next = tail.next().await?;
            let (event, tail) = match next {
                ControlFlow::Continue(event) => (event, Some(tail)),
                ControlFlow::Break(last) => (last, None),
            };
            Some((Ok(event), tail))
        });
        Ok(Sse::new(sent).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
    }

    /// The next event, or the last thing to send; `None` at the end.
    ///
    /// The token is checked for each event, because a slow reader takes the last event of a batch
    /// long after the first. While its last check is too old, no event is sent.
    async fn next(&mut self) -> Option<ControlFlow<Event, Event>> {
        loop {
            if self.state.stop.is_cancelled() {
                return None;
            }
            let may_send = match self.token.status() {
                TokenStatus::Valid => true,
                TokenStatus::Stale => false,
                // A client that reconnects gets the reason in the response.
                TokenStatus::Ended(StreamEnd::Expired | StreamEnd::Revoked) => return None,
                TokenStatus::Ended(end @ StreamEnd::Unchecked) => {
                    return Some(ControlFlow::Break(Event::default().comment(end.notice())));
                }
            };
            if may_send && let Some(event) = self.events.buffer.pop_front() {
                return Some(ControlFlow::Continue(sse(&event)));
            }
            tokio::select! {
                () = self.state.stop.cancelled() => return None,
                () = self.token.changed() => {}
                more = self.events.more(&self.state), if may_send => more?,
            }
        }
    }
}

/// Reads the events of a stream. It buffers at most one batch: a slow reader slows only itself.
struct EventReader {
    /// Sees what the caller may read.
    app: App,
    org: OrgId,
    token: Arc<WatchedToken>,
    query: EventQuery,
    /// Everything up to this position was read.
    after: i64,
    buffer: VecDeque<Arc<FeedEvent>>,
    watcher: Watcher,
}

impl EventReader {
    fn new(
        state: &AppState,
        (app, org): (App, OrgId),
        token: &Arc<WatchedToken>,
        query: EventQuery,
        after: i64,
    ) -> Self {
        let watcher = state.streams.feeds().join(state, (&app, org), token);
        let (token, buffer) = (Arc::clone(token), VecDeque::new());
        Self { app, org, token, query, after, buffer, watcher }
    }

    /// Waits until the buffer may have events; `None` when the feed has ended.
    async fn more(&mut self, state: &AppState) -> Option<()> {
        loop {
            self.watcher.mark_seen();
            if self.fill(state).await {
                return Some(());
            }
            self.watcher.changed().await?;
        }
    }

    /// Fills the buffer; returns whether it may have events. If not, there is nothing to read now.
    async fn fill(&mut self, state: &AppState) -> bool {
        match self.watcher.after(&self.query, self.after, BATCH) {
            Ahead::Unread => false,
            Ahead::Known(found, at) => {
                (self.buffer, self.after) = (found, at);
                !self.buffer.is_empty()
            }
            Ahead::Behind(end) => match self.catch_up(state, end).await {
                Ok(()) => true,
                Err(error) => {
                    tracing::debug!(%error, "cannot read events for a stream; retrying");
                    false
                }
            },
        }
    }

    /// Reads events that the feed no longer keeps, and then checks the token, as the feed does.
    async fn catch_up(&mut self, state: &AppState, end: i64) -> Result<(), Error> {
        let limit = i64::try_from(BATCH).unwrap_or(i64::MAX);
        let query = EventQuery { after: Some(self.after), limit, ..self.query.clone() };
        let events = self.app.list_events(self.org, &query).await?;
        check(state, &[Arc::clone(&self.token)]).await?;
        let last = events.last().map_or(self.after, |event| event.position);
        self.after = if events.len() < BATCH { last.max(end) } else { last };
        self.buffer = events.iter().map(|event| Arc::new(FeedEvent::new(event))).collect();
        Ok(())
    }
}
