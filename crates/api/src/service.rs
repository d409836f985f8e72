//! Services: wire types; their client methods are in `client`.

mod client;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use trueup_model::ServiceId;
use trueup_model::active_hours::{ActiveHours, Turn};
use trueup_model::drift::DriftPolicy;
use trueup_model::key::Kind;
use trueup_model::name::Name;
use trueup_model::observation::Cause;
use trueup_model::receipt::Receipt;
use trueup_model::service::DesiredState;
use trueup_model::status::{Health, Phase, PodCount, Reason, Reconciliation};
use trueup_model::template::TemplateRef;
use utoipa::ToSchema;

pub(crate) use self::client::service_path;
pub use self::client::{Accepted, ServiceQuery, Terms};
use crate::drift::{Difference, DriftManifest};
use crate::freeze::Freeze;
use crate::plan::Amount;
use crate::schema::{Generation, Percent, Pods, Sentence};

/// The body that declares a service, and its document in a manifest file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "template": "web@1", "plan": "small", "parameters": {"image": "shop:1.4.2", "replicas": 2}
}))]
pub struct ServiceManifest {
    /// `Service`; may be omitted in an API body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The name; may be omitted in an API body, where the path names the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Name>)]
    pub name: Option<String>,
    /// The project's name; may be omitted in an API body, where the path names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Name>)]
    pub project: Option<String>,
    /// A template and its version: `web@1`.
    #[schema(example = "web@1")]
    #[schema(value_type = TemplateRef)]
    pub template: String,
    /// The size of its pods: a plan's name. Without one, the template's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "small")]
    #[schema(value_type = Option<Name>)]
    pub plan: Option<String>,
    /// Values for the template's parameters.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub parameters: Map<String, Value>,
    /// What happens when other writers change its objects; if omitted, it has no policy of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftManifest>,
    /// When it runs; outside of these hours it is paused. If omitted, it always runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<ActiveHours>,
}

/// A service as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Service {
    /// `svc_…`
    #[schema(value_type = ServiceId)]
    pub id: String,
    /// The service's name.
    pub name: String,
    /// The project's name.
    pub project: String,
    /// The template version it was resolved from.
    pub template: String,
    /// The plan, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The price per month of the desired state, with its active hours; absent without a plan,
    /// and for a job that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monthly: Option<Amount>,
    /// The parameters as they were given.
    #[schema(value_type = Object)]
    pub parameters: Map<String, Value>,
    /// The desired number of pods while it is active.
    pub replicas: u32,
    /// The bounds of autoscaling, if it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscale: Option<AutoscaleBody>,
    /// Its own drift policy; absent if the project or the template decides.
    #[serde(default, skip_serializing_if = "DriftPolicy::is_empty")]
    pub drift: DriftPolicy,
    /// When it runs; absent for always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<ActiveHours>,
    /// What its active hours do; absent without them, and once it is being deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ServiceSchedule>,
    /// The desired state.
    pub desired: DesiredState,
    /// The generation, incremented by every accepted change.
    pub generation: i64,
    /// When this generation was accepted.
    pub accepted_at: Timestamp,
    /// When its first generation was accepted.
    pub created_at: Timestamp,
    /// The cluster it runs in.
    pub cluster: String,
    /// The namespace of its objects in that cluster.
    pub namespace: String,
    /// The name of its objects.
    pub object_name: String,
    /// Whether the observed state matches the newest generation.
    pub reconciliation: Reconciliation,
    /// What was observed.
    pub status: ServiceStatus,
    /// The recorded objects. Only in the response for a single service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ServiceObject>,
    /// The differences that stand: to be reverted, proposed for adoption, ignored or in conflict. Only
    /// in the response for a single service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub divergences: Vec<Difference>,
    /// The deletion receipt: the evidence that nothing is left. Only in the response for a single
    /// service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
    /// The freeze that applies, if any: the service is observed, and changes wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Freeze>,
    /// The path of its event stream.
    pub watch: String,
}

/// What the active hours of a service do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceSchedule {
    /// Whether they paused it; false if it runs, or if a person paused it.
    pub off: bool,
    /// When they change something next. What a person paused stays paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Timestamp>,
    /// What they do then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Turn>,
    /// The minutes of a week in which it runs, of 10080.
    pub minutes_per_week: u32,
    /// The price per month with these hours; absent without a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monthly: Option<Amount>,
    /// How much less that is than without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<Amount>,
}

/// What was observed of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceStatus {
    /// The lifecycle phase.
    pub phase: Phase,
    /// When the phase began.
    pub since: Timestamp,
    /// The health.
    pub health: Health,
    /// The last known health, if the health is unknown now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_known_health: Option<Health>,
    /// The newest generation that was completely applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_generation: Option<i64>,
    /// Why it has not converged yet.
    pub conditions: Vec<ServiceCondition>,
    /// When what is shown was last seen to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Timestamp>,
    /// Until when what is shown is known to be true: the last contact of the watches that it depends
    /// on, the oldest of them. It advances every few seconds, also while nothing changes; the ETag
    /// does not change with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_at: Option<Timestamp>,
    /// When it becomes stale, and its health unknown, unless it is confirmed again before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_at: Option<Timestamp>,
    /// The uid of the observed workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The resourceVersion of the observed workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// Whether its pods are on simulated nodes, which run no processes.
    pub simulated: bool,
    /// How many of its pods are ready, as observed; absent for what runs to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodCount>,
}

/// Why a service has not converged yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceCondition {
    /// A stable reason.
    pub reason: Reason,
    /// What it means and what to do.
    pub message: String,
    /// The cause outside of Trueup, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// The object with the cause, such as `Pod/web-0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The uid of that object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// A recorded object of a service in the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceObject {
    /// The object's kind.
    pub kind: Kind,
    /// Its namespace; empty for kinds without one.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid, once it was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// When it was last seen in the cluster: for a present object of a watched kind, the last contact
    /// of that watch. Absent if it was never seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen_at: Option<Timestamp>,
}

/// A list of services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceList {
    /// In the order of `sort`.
    pub items: Vec<Service>,
    /// The `cursor` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// With `count`, how many services match on all pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
}

/// The body that scales a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"replicas": 3}))]
pub struct ScaleBody {
    /// The number of pods.
    #[schema(example = 3)]
    #[schema(value_type = Pods)]
    pub replicas: u32,
}

/// The bounds of autoscaling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"min": 2, "max": 6, "cpu_percent": 70}))]
pub struct AutoscaleBody {
    /// The fewest pods.
    #[schema(example = 2)]
    #[schema(value_type = Pods)]
    pub min: u32,
    /// The most pods; this many count against the quota.
    #[schema(example = 6)]
    #[schema(value_type = Pods)]
    pub max: u32,
    /// The target CPU usage of a pod in percent; if omitted, it does not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 70)]
    #[schema(value_type = Option<Percent>)]
    pub cpu_percent: Option<u32>,
}

/// The body that changes the plan of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"plan": "medium"}))]
pub struct ResizeBody {
    /// A plan's name.
    #[schema(example = "medium")]
    #[schema(value_type = Name, example = "medium")]
    pub plan: String,
}

/// The body that sets when a service runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "active": {"zone": "Europe/Berlin", "windows": [{"days": ["sat", "sun"], "from": "10:00", "to": "23:00"}]}
}))]
pub struct HoursBody {
    /// Its active hours; without them it always runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<ActiveHours>,
}

/// The body that rolls a service back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"to": 1}))]
pub struct RollbackBody {
    /// An earlier generation; if omitted, the last one with a different spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 3)]
    #[schema(value_type = Option<Generation>)]
    pub to: Option<i64>,
}

/// The body that force-completes a deletion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"reason": "the node burnt and will not come back", "generation": 4}))]
pub struct ForceDeleteBody {
    /// The reason, as one sentence, for the receipt and the event log.
    #[schema(example = "the node burnt and will not come back")]
    #[schema(value_type = Sentence)]
    pub reason: String,
    /// The current generation; a different one is rejected.
    #[schema(example = 4)]
    #[schema(value_type = Generation)]
    pub generation: i64,
}

/// An empty body.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({}))]
pub struct NoBody {}
