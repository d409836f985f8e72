//! Plan requests: exact previews of a service's declaration, filled by the executor of its cluster.
//!
//! A plan is also the size that a service is sold in ([`plan`](crate::plan)). This is the other one: what
//! a change would do.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{PreviewRequestId, ServiceId};
use crate::key::ResourceKey;
use crate::name::Name;

/// How long somebody is given to fill a request.
pub const FILLED_WITHIN: SignedDuration = SignedDuration::from_secs(60);
/// How long a request is of use to anybody.
pub const KEPT_FOR: SignedDuration = SignedDuration::from_mins(15);
/// A plan holds if it was seen to hold so short a time ago.
pub const HELD_WITHIN: SignedDuration = SignedDuration::from_secs(15);

/// How a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PreviewState {
    /// Nobody has filled it yet.
    Waiting,
    /// The cluster has said what would happen.
    Filled,
    /// Nobody could, or it took too long.
    Failed,
    /// It was filled, and what it stands on is not there any more.
    Void,
    /// It is too old to be of use.
    Expired,
}

impl PreviewState {
    /// The text in the database and on screen.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Filled => "filled",
            Self::Failed => "failed",
            Self::Void => "void",
            Self::Expired => "expired",
        }
    }
}

/// Somebody asked what a declaration would really do.
#[derive(Debug, Clone, PartialEq)]
pub struct PreviewRequest {
    /// Its id.
    pub id: PreviewRequestId,
    /// The project's name.
    pub project_name: String,
    /// The service's name.
    pub service_name: Name,
    /// The service; for a new one, the id that it would get.
    pub service: ServiceId,
    /// The generation that the service would have.
    pub generation: i64,
    /// How it stands.
    pub state: PreviewState,
    /// Why it failed or does not hold, or what is waited for.
    pub why: Option<String>,
    /// What would happen, once it is filled.
    pub preview: Option<ExactPreview>,
    /// A hash of what the plan stands on.
    pub hash: Option<String>,
    /// Who asked.
    pub requested_by: String,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it was last seen to hold.
    pub checked_at: Option<Timestamp>,
    /// When it is of no more use.
    pub expires_at: Timestamp,
}

/// What a cluster says a change would do: every write of it, tried without being stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExactPreview {
    /// Each object of the service, in key order.
    pub objects: Vec<ExactObject>,
    /// Why the change would not come to its end; nothing where it would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stops: Option<String>,
    /// What it was found on: if that changes, something else would happen.
    pub footing: Vec<Standing>,
}

/// What would be done with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExactVerb {
    /// It is as it shall be.
    Keep,
    /// It is made.
    Create,
    /// It is changed.
    Update,
    /// It is removed.
    Delete,
    /// It is removed and made anew.
    Replace,
}

/// What would happen to one object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExactObject {
    /// Which.
    pub key: ResourceKey,
    /// What would be done with it.
    pub verb: ExactVerb,
    /// What would differ, as the cluster would store it; of secrets only the names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<ExactField>,
    /// What the cluster says against it. What comes after it was tried as if it had been taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// One field that would differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExactField {
    /// Where: `spec.template.spec.containers.main.image`.
    pub path: String,
    /// What stands there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// What would stand there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// What a plan takes for granted about one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Which.
    pub key: ResourceKey,
    /// Which incarnation stands there; nothing where none may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The fields that the plan changes, each with a keyed digest of what stands there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<(Vec<String>, String)>,
}
