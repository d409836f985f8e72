//! A service: an instance of a template version, with its accepted spec.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::active_hours::ActiveHours;
use crate::drift::DriftPolicy;
use crate::id::{ClusterId, OrgId, ProjectId, ServiceId};
use crate::name::Name;
use crate::spec::Spec;
use crate::template::TemplateRef;

/// The desired state of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum DesiredState {
    /// Run.
    Active,
    /// Exist without running.
    Paused,
    /// Be deleted completely.
    Deleted,
}

/// A service as accepted: the desired state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Its id.
    pub id: ServiceId,
    /// The tenant that owns it.
    pub org: OrgId,
    /// Its project.
    pub project: ProjectId,
    /// Its name, unique among the project's services that are not deleted.
    pub name: Name,
    /// The cluster it runs in.
    pub cluster: ClusterId,
    /// The name of its objects there: slug and tail of the id, unique per cluster.
    pub object_name: String,
    /// The template version it was resolved from.
    pub template: TemplateRef,
    /// The parameters as given, for display and comparison.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// Its drift policy.
    #[serde(default)]
    pub drift: DriftPolicy,
    /// When it runs; without hours, always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<ActiveHours>,
    /// The resolved spec of the current generation.
    pub spec: Spec,
    /// Whether it is to run, to be paused or to be deleted.
    pub desired: DesiredState,
    /// Whether it is paused by its active hours, and not by a person.
    #[serde(default)]
    pub scheduled_off: bool,
    /// Incremented by every accepted change.
    pub generation: i64,
    /// When this generation was accepted.
    pub accepted_at: Timestamp,
    /// When its first generation was accepted.
    pub created_at: Timestamp,
}
