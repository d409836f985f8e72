//! Volumes on the wire.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A volume as it is shown: a claim of a service, as it was last seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// What the claim is called in its namespace.
    pub name: String,
    /// The service that it belongs to.
    pub service: String,
    /// Its namespace.
    pub namespace: String,
    /// How much is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_gib: Option<u32>,
    /// Where the containers see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether it has its disk; left out while that was not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<bool>,
    /// Its uid, once it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// When it was last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub observed_at: Option<Timestamp>,
}

/// A list of volumes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeList {
    /// In service and claim order.
    pub items: Vec<Volume>,
}
