//! Why a service is as it is, and whether what is shown can be computed again, on the wire.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Why a service is as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// `svc_…`
    pub service: String,
    /// In one sentence.
    pub answer: String,
    /// The chain, from who asked to what is waited for.
    pub links: Vec<WhyLink>,
    /// What would unblock it; absent where nothing has to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unblock: Option<String>,
}

/// One link of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhyLink {
    /// `asked`, `ordered`, `frozen`, `applied`, `observed` or `waiting`.
    pub step: String,
    /// What is known.
    pub text: String,
    /// When, or since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Timestamp>,
    /// What proves it: ids, and uids with their versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proof: Vec<String>,
}

/// Statuses that were computed again from what is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectionCheck {
    /// How many were looked at.
    pub checked: u64,
    /// How many came out the same, byte for byte.
    pub same: u64,
    /// How many were projected by older rules and are not compared.
    pub older: u64,
    /// How many have nothing observed to be computed from.
    pub unobserved: u64,
    /// Those that came out otherwise.
    pub different: Vec<ProjectionDifference>,
    /// The `after` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A status that is not what its inputs say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectionDifference {
    /// `svc_…` or `prj_…`
    pub unit: String,
    /// What is stored.
    #[schema(value_type = Object)]
    pub stored: Value,
    /// What the inputs give.
    #[schema(value_type = Object)]
    pub rebuilt: Value,
}
