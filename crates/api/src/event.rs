//! Events: CloudEvents 1.0, over SSE or as pages.

use jiff::Timestamp;
use reqwest::header::ACCEPT;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trueup_model::event::Fact;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, Watch, query, segment};
use crate::schema::{CloudEventSource, CloudEventType};
use crate::service::service_path;

/// One event. Over SSE the field `id:` is the position, for resuming with `Last-Event-ID`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CloudEvent {
    /// Always `1.0`.
    pub specversion: String,
    /// `evt_…`: consumers dedupe by it.
    pub id: String,
    /// What emitted the event: `/trueup/user`, `/trueup/reconciler`, …
    #[schema(value_type = CloudEventSource)]
    pub source: String,
    /// `dev.trueup.ServicePhaseChanged.v1`, …
    #[serde(rename = "type")]
    #[schema(value_type = CloudEventType)]
    pub kind: String,
    /// What it is about: a service `svc_…`, a project `prj_…`, an org `org_…` or a cluster `cls_…`.
    pub subject: String,
    /// When it happened.
    pub time: Timestamp,
    /// Always `application/json`.
    pub datacontenttype: String,
    /// The position in the org's event log, without gaps.
    pub sequence: String,
    /// The generation of the subject.
    pub generation: i64,
    /// The org it belongs to: `org_…`.
    pub orgid: String,
    /// The trace id of the request that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceid: Option<String>,
    /// The event that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causeid: Option<String>,
    /// The hash of this event, chained to the hash of the previous one.
    pub hash: String,
    /// The name of the principal whose id is in `data`, if it is known. Names are not part of the
    /// hash, so that they can be erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principalname: Option<String>,
    /// The fact itself.
    #[schema(value_type = Fact)]
    pub data: Value,
}

/// A page of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventList {
    /// In order.
    pub items: Vec<CloudEvent>,
    /// The `after` of the next page; with `order=newest`, its `before`.
    pub next: String,
}

/// Which events to read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventFilter {
    /// Only events about this service or project, by id.
    pub subject: Option<String>,
    /// Only events of this type: `ServiceQueued`.
    pub kind: Option<String>,
    /// Only events about this generation of the subject.
    pub generation: Option<i64>,
}

/// Which page of events to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventPage {
    /// Oldest first, after this position.
    After(Option<String>),
    /// Newest first, before this position.
    NewestBefore(Option<String>),
}

impl Client {
    /// A page of the org's events.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn event_list(
        &self,
        filter: &EventFilter,
        page: &EventPage,
        limit: Option<u32>,
    ) -> Result<EventList, ClientError> {
        let (after, before, order) = match page {
            EventPage::After(after) => (after.as_deref(), None, None),
            EventPage::NewestBefore(before) => (None, before.as_deref(), Some("newest")),
        };
        let limit = limit.map(|limit| limit.to_string());
        let generation = filter.generation.map(|generation| generation.to_string());
        let parameters = [
            ("after", after),
            ("before", before),
            ("order", order),
            ("limit", limit.as_deref()),
            ("subject", filter.subject.as_deref()),
            ("type", filter.kind.as_deref()),
            ("generation", generation.as_deref()),
        ];
        self.get(&query("/v1/events", &parameters)).await
    }

    /// One event.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn event_get(&self, event: &str) -> Result<CloudEvent, ClientError> {
        self.get(&format!("/v1/events/{}", segment(event)?)).await
    }

    /// A stream of the org's events after position `after`; without it, only new events.
    ///
    /// # Errors
    /// See [`ClientError`]; the stream also yields errors, and ends after one.
    pub async fn event_watch(
        &self,
        filter: &EventFilter,
        after: Option<String>,
    ) -> Result<Watch, ClientError> {
        let parameters = [("subject", filter.subject.as_deref()), ("type", filter.kind.as_deref())];
        self.watch(&query("/v1/events/watch", &parameters), after).await
    }

    /// A stream of a service's events after position `after`.
    ///
    /// # Errors
    /// See [`ClientError`]; the stream also yields errors, and ends after one.
    pub async fn service_watch(
        &self,
        project: &str,
        name_or_id: &str,
        after: Option<String>,
    ) -> Result<Watch, ClientError> {
        self.watch(&format!("{}/watch", service_path(project, name_or_id)?), after).await
    }

    async fn watch(&self, path: &str, after: Option<String>) -> Result<Watch, ClientError> {
        let mut request = self.stream(path).header(ACCEPT, "text/event-stream");
        if let Some(after) = &after {
            request = request.header("Last-Event-ID", after);
        }
        let response = self.send(request, path).await?;
        Ok(Watch::new(response, self.url(path), after))
    }
}
