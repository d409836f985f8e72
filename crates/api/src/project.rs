//! Projects on the wire.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::service::ServiceStatus;

/// The body that declares a project, and its document in a manifest file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"kind": "Project", "name": "shop"}))]
pub struct ProjectManifest {
    /// `Project`; may be left out in an API body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The project's name; may be left out in an API body, where the path says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A project as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Project {
    /// `prj_…`
    pub id: String,
    /// What people call it.
    pub name: String,
    /// The cluster its services run in.
    pub cluster: String,
    /// Its namespace there.
    pub namespace: String,
    /// `active` or `deleted`: whether it shall be there.
    pub desired: String,
    /// Raised by every accepted change.
    pub generation: i64,
    /// `settled`, `pending` or `diverged`: whether the status is the end of the story.
    pub reconciliation: String,
    /// What was observed of its namespace and policies.
    pub status: ServiceStatus,
    /// The proof that nothing of it is left, once it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Value>,
}

/// A list of projects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectList {
    /// In name order.
    pub items: Vec<Project>,
}
