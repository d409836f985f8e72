//! Facts about orgs and their quotas.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::quota::Amounts;

/// An org was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OrgCreated {
    /// Its name.
    pub name: String,
    /// Who requested it.
    pub principal: String,
}

/// The deletion of an org was accepted: of all its projects and their services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OrgDeleteQueued {
    /// How many projects are deleted with it that were not being deleted already.
    pub projects: usize,
    /// How many services are deleted with these projects that were not being deleted already.
    pub services: usize,
    /// Who requested it.
    pub principal: String,
}

/// The quota of an org was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaChanged {
    /// The new limits.
    pub limit: Amounts,
    /// Who requested it.
    pub principal: String,
}
