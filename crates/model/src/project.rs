//! A project: one namespace per cluster, holding services.

use serde::{Deserialize, Serialize};

use crate::id::{ClusterId, OrgId, ProjectId};
use crate::name::Name;

/// A project as it was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// Its id.
    pub id: ProjectId,
    /// The tenant that owns it.
    pub org: OrgId,
    /// What people call it, unique in its org.
    pub name: Name,
    /// Where its services run.
    pub cluster: ClusterId,
    /// The namespace it has there: slug and tail of the id, so that it never collides.
    pub namespace: String,
    /// Raised by every accepted change.
    pub generation: i64,
}
