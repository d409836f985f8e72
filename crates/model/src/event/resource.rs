//! Facts about objects in a cluster.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::key::ResourceKey;

/// An owned object was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceCreated {
    /// Which.
    pub key: ResourceKey,
}

/// An owned object was updated to a newer generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceUpdated {
    /// Which.
    pub key: ResourceKey,
}

/// An owned object was removed by Trueup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceRemoved {
    /// Which.
    pub key: ResourceKey,
}

/// An owned object was deleted outside Trueup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceDeletedExternally {
    /// Which.
    pub key: ResourceKey,
}

/// An owned object was changed outside Trueup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceModifiedExternally {
    /// Which.
    pub key: ResourceKey,
    /// The first field that differed.
    pub field: String,
    /// The field manager that wrote it, from the object's managed fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}
