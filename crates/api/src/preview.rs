//! Previews on the wire: what a write with `?dry_run=true` answers. Nothing of it is recorded.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::plan::Amount;
use crate::quota::Quota;

/// What a write would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Preview {
    /// Whether anything would be recorded.
    pub changed: bool,
    /// What the write would answer; absent where that has no body. Ids of new things in it are
    /// examples, and no secret is ever in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub result: Option<Value>,
    /// The services and projects that would have a new generation, in name order.
    pub units: Vec<PreviewUnit>,
    /// The org's quota, with this write counted; absent where no service or project changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
}

/// What would become of one service or project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreviewUnit {
    /// `service` or `project`.
    pub kind: String,
    /// `shop`, or `shop/web`.
    #[schema(example = "shop/web")]
    pub name: String,
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
}

/// What a write answers with 200: the thing itself, or with `?dry_run=true` the preview.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum OrPreview<T> {
    /// The thing as it is now.
    Done(T),
    /// What the write would do.
    Preview(Box<Preview>),
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
