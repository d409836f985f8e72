//! Facts about projects.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The deletion of a project and of all its services was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectDeleteQueued {
    /// Who requested it.
    pub principal: String,
    /// How many services are deleted with it that were not being deleted already.
    pub services: usize,
}

/// A request to force-complete a project's deletion was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectForceQueued {
    /// Who requested it.
    pub principal: String,
    /// The reason they gave.
    pub reason: String,
}

/// A project's deletion was force-completed before absence was verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectDeleteForced {
    /// Who requested it.
    pub principal: String,
    /// The reason they gave.
    pub reason: String,
    /// How many objects were not verified absent, including foreign ones in the namespace.
    pub unproven: usize,
}
