//! Projects on the wire.

use serde::{Deserialize, Serialize};
use trueup_model::ProjectId;
use trueup_model::name::Name;
use trueup_model::receipt::Receipt;
use trueup_model::service::DesiredState;
use trueup_model::status::Reconciliation;
use utoipa::ToSchema;

use crate::service::ServiceStatus;

/// The body that declares a project, and its document in a manifest file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"kind": "Project", "name": "shop"}))]
pub struct ProjectManifest {
    /// `Project`; may be omitted in an API body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The name; may be omitted in an API body, where the path names the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Name>)]
    pub name: Option<String>,
}

/// A project as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Project {
    /// `prj_…`
    #[schema(value_type = ProjectId)]
    pub id: String,
    /// The project's name.
    pub name: String,
    /// The cluster that its services run in.
    pub cluster: String,
    /// Its namespace in that cluster.
    pub namespace: String,
    /// The desired state: a project is active or deleted.
    pub desired: DesiredState,
    /// Raised by every accepted change.
    pub generation: i64,
    /// Whether the observed state carries the newest generation.
    pub reconciliation: Reconciliation,
    /// What was observed of its namespace and policies.
    pub status: ServiceStatus,
    /// The evidence that nothing of the project is left, once it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
}

/// A list of projects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectList {
    /// In name order.
    pub items: Vec<Project>,
}
