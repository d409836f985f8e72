//! Previews on the wire: the response to a write with `?dry_run=true`, which saves nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::IntoStaticStr;
use trueup_model::key::Kind;
use trueup_model::service::DesiredState;
use utoipa::ToSchema;

use crate::plan::Amount;
use crate::quota::Quota;

/// What a write would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Preview {
    /// Whether the write would change anything.
    pub changed: bool,
    /// The response body of the write, if it has one. Ids of new objects in it are examples, and it
    /// contains no secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub result: Option<Value>,
    /// The services and projects that would get a new generation, in name order.
    pub units: Vec<PreviewUnit>,
    /// The org's quota after the write; absent if no service or project changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
}

/// What would happen to one service or project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreviewUnit {
    /// Service or project.
    pub kind: PreviewUnitKind,
    /// `shop`, or `shop/web`.
    #[schema(example = "shop/web")]
    pub name: String,
    /// The generation it would have.
    pub generation: i64,
    /// The desired state it would have.
    pub desired: DesiredState,
    /// The objects that would be created, updated or deleted, compared with the current release.
    pub objects: Vec<PreviewObject>,
    /// Whether every pod would be replaced.
    pub replaces_pods: bool,
    /// The price per month now; absent without a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monthly_before: Option<Amount>,
    /// The price per month after the write, of the price version that holds now; absent without a
    /// plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monthly_after: Option<Amount>,
    /// The number of pods that `monthly_after` is for if it is autoscaled: its maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priced_pods: Option<u32>,
}

/// The kind of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum PreviewUnitKind {
    /// A service.
    Service,
    /// A project.
    Project,
}

/// What would be done with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum PreviewVerb {
    /// The object would be created.
    Create,
    /// The object would be changed.
    Update,
    /// The object would be deleted.
    Delete,
}

/// The 200 response to a write: the object, or the preview with `?dry_run=true`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum OrPreview<T> {
    /// The object as it is now.
    Done(T),
    /// What the write would do.
    Preview(Box<Preview>),
}

/// What would happen to one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreviewObject {
    /// The object's kind.
    pub kind: Kind,
    /// Its namespace; empty for kinds without one.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What would be done with the object.
    pub verb: PreviewVerb,
    /// The fields that would change; empty unless the object is updated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<PreviewField>,
}

/// One field that would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreviewField {
    /// The path: `spec.template.spec.containers.main.image`.
    pub path: String,
    /// The recorded value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub before: Option<Value>,
    /// The value it would have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub after: Option<Value>,
}
