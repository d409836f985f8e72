//! A project: one namespace per cluster, holding services.

use serde::{Deserialize, Serialize};

use crate::drift::DriftPolicy;
use crate::id::{ClusterId, OrgId, ProjectId};
use crate::name::Name;

/// A project as accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// Its id.
    pub id: ProjectId,
    /// The tenant that owns it.
    pub org: OrgId,
    /// Its name, unique in its org.
    pub name: Name,
    /// The cluster its services run in.
    pub cluster: ClusterId,
    /// Its namespace in that cluster: slug and tail of the id, so that it never collides.
    pub namespace: String,
    /// Incremented by every accepted change.
    pub generation: i64,
    /// The drift policy of its services, where they have none of their own.
    #[serde(default)]
    pub drift: DriftPolicy,
}
