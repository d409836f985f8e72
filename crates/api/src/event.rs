//! Events on the wire: CloudEvents 1.0, over SSE or as pages.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// One event. Over SSE the field `id:` is the position, for resuming with `Last-Event-ID`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CloudEvent {
    /// Always `1.0`.
    pub specversion: String,
    /// `evt_…`: consumers dedupe by it.
    pub id: String,
    /// Who or what it comes from: `/trueup/user`, `/trueup/reconciler`, …
    pub source: String,
    /// `dev.trueup.ServicePhaseChanged.v1`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// What it is about: `svc_…` or `prj_…`.
    pub subject: String,
    /// When it happened.
    #[schema(value_type = String, format = DateTime)]
    pub time: Timestamp,
    /// Always `application/json`.
    pub datacontenttype: String,
    /// Its place in the org's order of events, without gaps.
    pub sequence: String,
    /// The generation it speaks of.
    pub generation: i64,
    /// The org it belongs to: `org_…`.
    pub orgid: String,
    /// The trace of the request that it began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceid: Option<String>,
    /// The event that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causeid: Option<String>,
    /// The hash of this event and, through the one before it, of all before it.
    pub hash: String,
    /// The fact itself.
    #[schema(value_type = Object)]
    pub data: Value,
}

/// A page of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventList {
    /// In order.
    pub items: Vec<CloudEvent>,
    /// Pass this as `after` to go on; with `order=newest`, as `before`.
    pub next: String,
}

/// Which events a client wants to have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventFilter {
    /// Only those about this service or project, by id.
    pub subject: Option<String>,
    /// Only those of this type: `ServiceQueued`.
    pub kind: Option<String>,
    /// Only those that speak of this generation of the subject.
    pub generation: Option<i64>,
}

/// Which part of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventPage {
    /// As they happened, after this position.
    After(Option<String>),
    /// The newest first, before this position.
    NewestBefore(Option<String>),
}
