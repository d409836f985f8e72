//! Releases on the wire.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// What was promised under one generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Release {
    /// `rel_…`
    pub id: String,
    /// The generation it is.
    pub generation: i64,
    /// What was done: `declare`, `pause`, `rollback` …
    pub action: String,
    /// Who asked.
    pub principal: String,
    /// When it was accepted.
    #[schema(value_type = String, format = DateTime)]
    pub accepted_at: Timestamp,
    /// The template version it was resolved from.
    pub template: String,
    /// The plan it has, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The parameters as they were given.
    #[schema(value_type = Object)]
    pub parameters: Map<String, Value>,
    /// What was promised: `active`, `paused` or `deleted`.
    pub desired: String,
    /// The resolved spec: what a rollback to it promises again, whatever became of the template.
    #[schema(value_type = Object)]
    pub spec: Value,
}

/// A page of releases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReleaseList {
    /// Newest first.
    pub items: Vec<Release>,
    /// The `before` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}
