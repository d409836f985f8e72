//! Services on the wire.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::freeze::Freeze;
use crate::plan::Amount;

/// The body that declares a service, and its document in a manifest file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "template": "web@1", "plan": "small", "parameters": {"image": "shop:1.4.2", "replicas": 2}
}))]
pub struct ServiceManifest {
    /// `Service`; may be left out in an API body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The service's name; may be left out in an API body, where the path says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The project's name; may be left out in an API body, where the path says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// A template and its version: `web@1`.
    #[schema(example = "web@1")]
    pub template: String,
    /// The size of its pods: a plan's name. Without one, the template's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "small")]
    pub plan: Option<String>,
    /// Values for the template's parameters.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub parameters: Map<String, Value>,
}

/// A service as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Service {
    /// `svc_…`
    pub id: String,
    /// What people call it.
    pub name: String,
    /// The project's name.
    pub project: String,
    /// The template version it was resolved from.
    pub template: String,
    /// The plan it has, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// What a month of it costs as it is promised; absent without a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monthly: Option<Amount>,
    /// The parameters as they were given.
    #[schema(value_type = Object)]
    pub parameters: Map<String, Value>,
    /// How many pods it shall have while it runs.
    pub replicas: u32,
    /// Between which bounds their number follows the load instead, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscale: Option<AutoscaleBody>,
    /// What was promised: `active`, `paused` or `deleted`.
    pub desired: String,
    /// The promise's number, raised by every accepted change.
    pub generation: i64,
    /// When this generation was accepted.
    #[schema(value_type = String, format = DateTime)]
    pub accepted_at: Timestamp,
    /// When its first generation was accepted.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// The cluster it runs in.
    pub cluster: String,
    /// The namespace and name of its objects there.
    pub namespace: String,
    /// The name its objects have there.
    pub object_name: String,
    /// `settled`, `pending` or `diverged`: whether the status is the end of the story.
    pub reconciliation: String,
    /// What was observed.
    pub status: ServiceStatus,
    /// The objects that were seen, by key. Only in the answer for one service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ServiceObject>,
    /// The proof that nothing is left of a deleted service. Only in the answer for one service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub receipt: Option<Value>,
    /// What forbids to act on it, where something does: it is observed, and changes wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Freeze>,
    /// Where to watch it become true.
    pub watch: String,
}

/// What was observed of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceStatus {
    /// Where it is in its life.
    pub phase: String,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// `healthy`, `progressing`, `degraded`, `error` or `unknown`.
    pub health: String,
    /// What health was when it was last known, where it is unknown now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_known_health: Option<String>,
    /// The newest generation that reality carried whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_generation: Option<i64>,
    /// Why it is not there yet.
    pub conditions: Vec<ServiceCondition>,
    /// When the evidence was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub observed_at: Option<Timestamp>,
    /// The uid of the workload that was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The resourceVersion it was seen at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// Whether its pods run on simulated nodes, where nothing really runs.
    pub simulated: bool,
}

/// Why a service is not there yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceCondition {
    /// A stable reason.
    pub reason: String,
    /// What it means and what to do.
    pub message: String,
    /// The cause outside of Trueup, where there is one: `image_missing`, `out_of_memory` …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The object that shows it, such as `Pod/web-0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The uid of that object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// One object that was seen in the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceObject {
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty for kinds without one.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid, once it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// A list of services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceList {
    /// In name order.
    pub items: Vec<Service>,
    /// The `cursor` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// How many pods a service shall have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"replicas": 3}))]
pub struct ScaleBody {
    /// How many.
    #[schema(example = 3)]
    pub replicas: u32,
}

/// Between which bounds the number of a service's pods follows the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"min": 2, "max": 6, "cpu_percent": 70}))]
pub struct AutoscaleBody {
    /// The fewest pods.
    #[schema(example = 2)]
    pub min: u32,
    /// The most pods; this many count against the quota.
    #[schema(example = 6)]
    pub max: u32,
    /// How much of its CPU a pod shall use on average, in percent; left out, as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 70)]
    pub cpu_percent: Option<u32>,
}

/// Which size a service's pods shall have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"plan": "medium"}))]
pub struct ResizeBody {
    /// A plan's name.
    #[schema(example = "medium")]
    pub plan: String,
}

/// Where a rollback goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"to": 1}))]
pub struct RollbackBody {
    /// A former generation; without one, the last that promised something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 3)]
    pub to: Option<i64>,
}

/// Why a deletion shall end without proof, and of which generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"reason": "the node burnt and will not come back", "generation": 4}))]
pub struct ForceDeleteBody {
    /// In a sentence, for the receipt and the event log.
    #[schema(example = "the node burnt and will not come back")]
    pub reason: String,
    /// The generation that was read: another one is refused.
    #[schema(example = 4)]
    pub generation: i64,
}

/// For actions that need no more words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({}))]
pub struct NoBody {}
