//! Previews on the wire: what a write with `?dry_run=true` answers. Nothing of it is recorded.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::plan::Amount;
use crate::quota::Quota;

/// What a change would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Preview {
    /// Whether there would be a new generation.
    pub changed: bool,
    /// The generation it would have.
    pub generation: i64,
    /// What would be promised: `active`, `paused` or `deleted`.
    pub desired: String,
    /// Objects that would come, change or go, compared with what is recorded.
    pub objects: Vec<PreviewObject>,
    /// Whether every pod would be replaced.
    pub replaces_pods: bool,
    /// What a month costs now; absent without a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monthly_before: Option<Amount>,
    /// What a month would cost; absent without a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monthly_after: Option<Amount>,
    /// The org's quota, with this change counted.
    pub quota: Quota,
}

/// What would happen to one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreviewObject {
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty for kinds without one.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `create`, `update` or `delete`.
    pub verb: String,
    /// What would differ; empty unless it is changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<PreviewField>,
}

/// One field that would differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreviewField {
    /// Where: `spec.template.spec.containers.main.image`.
    pub path: String,
    /// What is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub before: Option<Value>,
    /// What would be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub after: Option<Value>,
}
