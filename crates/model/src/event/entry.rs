//! Facts about variables and secrets.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A variable was set, for a project or for a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VariableSet {
    /// Which.
    pub name: String,
    /// Its new version.
    pub version: i64,
    /// Who set it.
    pub principal: String,
}

/// A variable was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VariableDeleted {
    /// Which.
    pub name: String,
    /// The version of the deletion.
    pub version: i64,
    /// Who deleted it.
    pub principal: String,
}

/// A secret was set. No event contains its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretSet {
    /// Which.
    pub name: String,
    /// Its new version.
    pub version: i64,
    /// Who set it.
    pub principal: String,
}

/// A secret was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretDeleted {
    /// Which.
    pub name: String,
    /// The version of the deletion.
    pub version: i64,
    /// Who deleted it.
    pub principal: String,
}
