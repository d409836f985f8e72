//! Freezes on the wire.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why something is to be frozen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"reason": "we look into an outage"}))]
pub struct FreezeBody {
    /// A sentence for whoever wonders why nothing happens.
    #[schema(example = "we look into an outage")]
    pub reason: String,
}

/// A freeze that is in force: what it covers is observed and not touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Freeze {
    /// `platform`, `cluster` or `service`.
    pub scope: String,
    /// Who froze it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
}

/// The platform as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Platform {
    /// Whether every cluster is frozen, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Freeze>,
}
