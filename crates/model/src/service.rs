//! A service: an instance of a template version, and the promise made about it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{ClusterId, OrgId, ProjectId, ServiceId};
use crate::name::Name;
use crate::spec::Spec;
use crate::template::TemplateRef;

/// What was promised about a service's existence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DesiredState {
    /// It shall run.
    Active,
    /// It shall exist without running.
    Paused,
    /// Nothing of it shall remain.
    Deleted,
}

impl DesiredState {
    /// The text in the database and on screen.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Deleted => "deleted",
        }
    }
}

/// A service as it was accepted: the desired state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Its id.
    pub id: ServiceId,
    /// The tenant that owns it.
    pub org: OrgId,
    /// The project it lives in.
    pub project: ProjectId,
    /// What people call it, unique among the project's living services.
    pub name: Name,
    /// Where it runs.
    pub cluster: ClusterId,
    /// The name its objects have there: slug and tail of the id, unique per cluster.
    pub object_name: String,
    /// The template version it was resolved from.
    pub template: TemplateRef,
    /// The parameters as they were given, for showing and for comparing.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// The resolved spec of the current generation.
    pub spec: Spec,
    /// Whether it shall run, rest or be gone.
    pub desired: DesiredState,
    /// Raised by every accepted change.
    pub generation: i64,
    /// When this generation was accepted.
    pub accepted_at: Timestamp,
    /// When its first generation was accepted.
    pub created_at: Timestamp,
}
