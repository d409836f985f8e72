//! Facts about drift: what was seen, and what was decided.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::key::ResourceKey;

/// An owned object differs from the accepted generation, and no newer one explains it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftDetected {
    /// Which.
    pub key: ResourceKey,
    /// The first field that differs.
    pub field: String,
}

/// Drift of an owned object was reverted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftReverted {
    /// Which.
    pub key: ResourceKey,
    /// The first field that differed.
    pub field: String,
}
