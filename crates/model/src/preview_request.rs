//! Preview requests: exact previews of a change to a service.
//!
//! The executor of the service's cluster fills them with dry runs.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::id::{PreviewRequestId, ServiceId};
use crate::key::ResourceKey;
use crate::name::Name;

/// A request that is not filled within this time fails.
pub const FILLED_WITHIN: SignedDuration = SignedDuration::from_secs(60);
/// How long a request can be used before it expires.
pub const KEPT_FOR: SignedDuration = SignedDuration::from_mins(15);
/// A preview counts as valid if it was checked at most this long ago.
pub const HELD_WITHIN: SignedDuration = SignedDuration::from_secs(15);

/// The state of a preview request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[schema(as = PreviewRequestState)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum PreviewState {
    /// It is not filled yet.
    Waiting,
    /// The cluster has answered what would happen.
    Filled,
    /// It could not be filled, or not in time.
    Failed,
    /// It was filled, and the state it is based on has changed since.
    Void,
    /// It is too old to be used.
    Expired,
}

/// A request for what a declaration would change in the cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct PreviewRequest {
    /// Its id.
    pub id: PreviewRequestId,
    /// The project's name.
    pub project_name: String,
    /// The service's name.
    pub service_name: Name,
    /// The service; for a new one, the id it would get.
    pub service: ServiceId,
    /// The generation that the service would have.
    pub generation: i64,
    /// Its state.
    pub state: PreviewState,
    /// Why it failed or is void, or what it waits for.
    pub why: Option<String>,
    /// What would happen, once it is filled.
    pub preview: Option<ExactPreview>,
    /// A hash of the state that the preview is based on.
    pub hash: Option<String>,
    /// Who requested it.
    pub requested_by: String,
    /// When it was requested.
    pub created_at: Timestamp,
    /// When it was last checked and found valid.
    pub checked_at: Option<Timestamp>,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// What a change would do, from a dry run of each of its writes by the API server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExactPreview {
    /// Each object of the service, in key order.
    pub objects: Vec<ExactObject>,
    /// Why the change would not complete; none if it would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stops: Option<String>,
    /// The cluster state it is based on: if that changes, the preview is void.
    pub footing: Vec<Standing>,
}

/// The operation on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ExactVerb {
    /// No change.
    Keep,
    /// It is created.
    Create,
    /// It is changed.
    Update,
    /// It is deleted.
    Delete,
    /// It is deleted and created again.
    Replace,
}

/// What would happen to one object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExactObject {
    /// Its key.
    pub key: ResourceKey,
    /// The operation on it.
    pub verb: ExactVerb,
    /// The fields that would change, as the cluster would store them; of secrets only the names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<ExactField>,
    /// The API server's rejection. Later objects were tried as if this one had been accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// One field that would change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExactField {
    /// Its path: `spec.template.spec.containers.main.image`.
    pub path: String,
    /// Its current value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Its value after the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// The state of one object that a preview is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Its key.
    pub key: ResourceKey,
    /// Its uid; none if the object must not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The fields that the change affects, each with a keyed digest of its current value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<(Vec<String>, String)>,
}
