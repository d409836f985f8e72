//! Events on the wire: CloudEvents 1.0, over SSE or as pages.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trueup_model::event::Fact;
use utoipa::ToSchema;

use crate::schema::{CloudEventSource, CloudEventType};

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
    /// The service or project: `svc_…` or `prj_…`.
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
