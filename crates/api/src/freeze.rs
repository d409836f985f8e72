//! Freezes on the wire.

use crate::schema::Sentence;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::freeze::FreezeScope;
use utoipa::ToSchema;

/// The body that freezes a service, a cluster or the platform.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"reason": "investigating an outage"}))]
pub struct FreezeBody {
    /// The reason, as one sentence.
    #[schema(example = "investigating an outage")]
    #[schema(value_type = Sentence)]
    pub reason: String,
}

/// An active freeze: its scope is observed, but nothing in it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Freeze {
    /// The scope of the freeze.
    pub scope: FreezeScope,
    /// The name of the token that froze it.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// When it was frozen.
    pub since: Timestamp,
}

/// The platform as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Platform {
    /// Whether every cluster is frozen, and why.
    #[schema(required = true)]
    pub frozen: Option<Freeze>,
}
