//! Watching a service: its events as they are sealed, in order and without gaps.

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
use trueup_api::Problem;
use trueup_model::order::Unit;
use trueup_model::principal::Permission;
use trueup_store::{Error, SealedEvent};

use crate::address::{Path, Query};
use crate::caller::Caller;
use crate::event::position;
use crate::problem::{Answer, Failure};
use crate::{Door, view};

/// A comment line this often, so that silence is told apart from a broken connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The safety net for a signal that got lost.
const POLL: Duration = Duration::from_secs(1);
const BATCH: i64 = 200;

/// Where to begin.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct From {
    /// Only events after this position. `Last-Event-ID` says the same and wins.
    after: Option<String>,
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
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let after = match position(last.or(from.after.as_deref()))? {
        Some(after) => after,
        None => door.app.generation_position(caller.org, unit, service.generation).await?,
    };
    let seals = door.signals.seals();
    let tail = Tail { door, caller, unit, after, seals, buffer: VecDeque::new() };
    let events = unfold(tail, |mut tail| async move {
        let event = tail.next().await?;
        Some((Ok(sse(&event)), tail))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

fn sse(event: &SealedEvent) -> Event {
    let data = serde_json::to_string(&view::event(event)).unwrap_or_default();
    Event::default().id(event.position.to_string()).event(&event.kind).data(data)
}

/// A reader at a position. It holds one batch at most: a slow reader slows only itself.
struct Tail {
    door: Door,
    caller: Caller,
    unit: Unit,
    after: i64,
    seals: watch::Receiver<u64>,
    buffer: VecDeque<SealedEvent>,
}

impl Tail {
    /// The next events, or nothing if the token died: asked each time, so that an idle stream ends too.
    async fn read(&self) -> Result<Option<Vec<SealedEvent>>, Error> {
        let (org, unit) = (self.caller.org, Some(self.unit));
        let events = self.door.app.list_events(org, unit, self.after, BATCH).await?;
        let valid = self.caller.is_still_valid(&self.door).await?;
        Ok(valid.then_some(events))
    }

    /// The next event, or nothing when the stream must end: the process stops or the token died.
    async fn next(&mut self) -> Option<SealedEvent> {
        loop {
            if let Some(event) = self.buffer.pop_front() {
                self.after = event.position;
                return Some(event);
            }
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
}
