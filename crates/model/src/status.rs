//! The status of a service: projected from observations alone, with its evidence.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};
use utoipa::ToSchema;

use crate::id::ClusterId;
use crate::observation::{Cause, Observation};
use crate::report::Outcome;
use crate::service::DesiredState;

/// The lifecycle phase of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Phase {
    /// Accepted; no pass has run yet.
    Accepted,
    /// Its first generation is being applied.
    Creating,
    /// It runs as accepted.
    Running,
    /// A newer generation is being applied.
    Updating,
    /// Its one run has ended; the health says how.
    Completed,
    /// It exists and does not run, as requested.
    Paused,
    /// It is being deleted.
    Deleting,
    /// A person has to act before it can converge.
    Blocked,
    /// Its absence is verified, or its deletion was forced.
    Deleted,
}

/// The health of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Health {
    /// Every desired pod is ready.
    Healthy,
    /// In progress, no problem so far.
    Progressing,
    /// Some pods are ready, not all.
    Degraded,
    /// No pod is ready, and the cause is known.
    Error,
    /// There is no fresh evidence.
    Unknown,
}

/// Whether the service has converged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Reconciliation {
    /// The cluster matches the newest generation.
    Settled,
    /// Work is in progress or queued.
    Pending,
    /// The cluster differs from the accepted generation, and no newer one explains it.
    Diverged,
}

/// Why a service has not converged: a typed reason and a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The reason.
    pub reason: Reason,
    /// What it means here and what to do.
    pub message: String,
    /// The cause outside Trueup, if there is one, and the object that shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<CauseSeen>,
}

/// A cause and the object that shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseSeen {
    /// The cause.
    pub cause: Cause,
    /// The object that shows it: `Pod/web-0`, `Deployment/web`.
    pub object: String,
    /// The uid of that object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// Reasons for a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[schema(as = ConditionReason)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Reason {
    /// Something else must complete first.
    Waiting,
    /// The cluster does not answer.
    ClusterUnreachable,
    /// A secret cannot be decrypted.
    SecretsLocked,
    /// A freeze forbids the pending changes.
    Frozen,
    /// A defect in Trueup ended the last pass.
    Defect,
    /// A person has to act.
    Blocked,
    /// The database is older than the cluster: it was restored, or lost its last changes.
    DatabaseOlder,
    /// The cluster rejects an object.
    Refused,
    /// A call to the cluster failed.
    ClusterError,
    /// Pods do not run.
    PodsNotReady,
    /// The last run of a cron or a job failed.
    RunFailed,
    /// A controller does not route a host of the service.
    HostRefused,
    /// Another writer changed a field again and again: it is not enforced until a person decides.
    InConflict,
    /// The value that another writer set is proposed for adoption.
    AdoptionProposed,
    /// Another writer changed or deleted an object, and it is not restored yet.
    ExternallyModified,
    /// The cluster does not accept an optional kind that the service uses.
    PartMissing,
    /// The last observation is stale.
    Stale,
}

/// The evidence of a status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The cluster that was observed.
    pub cluster: ClusterId,
    /// The workload's uid, if it was observed.
    pub uid: Option<String>,
    /// The workload's resourceVersion, if it was observed.
    pub resource_version: Option<String>,
    /// When it was observed.
    pub observed_at: Timestamp,
    /// Whether its pods run on simulated nodes.
    pub simulated: bool,
    /// Its pods; none for what runs to its end, and in statuses of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodCount>,
}

/// How many pods of a service are ready, of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PodCount {
    /// Pods that are ready, as observed.
    pub ready: u32,
    /// Pods that the workload in the cluster asks for.
    pub wanted: u32,
}

/// The projected status of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its phase.
    pub phase: Phase,
    /// Since when it is in this phase.
    pub since: Timestamp,
    /// Its health.
    pub health: Health,
    /// Why it has not converged, in reason order.
    pub conditions: Vec<Condition>,
    /// The newest generation that was completely applied.
    pub applied_generation: Option<i64>,
    /// What this is based on; none until something was observed.
    pub evidence: Option<Evidence>,
}

impl Status {
    /// The status of a service that was just accepted.
    #[must_use]
    pub const fn accepted(since: Timestamp) -> Self {
        Self {
            phase: Phase::Accepted,
            since,
            health: Health::Unknown,
            conditions: Vec::new(),
            applied_generation: None,
            evidence: None,
        }
    }
}

/// All inputs of a projection. Stored, so that it can be computed again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inputs {
    /// The desired state when this was projected.
    pub desired: DesiredState,
    /// The accepted generation when this was projected.
    pub generation: i64,
    /// Its cluster.
    pub cluster: ClusterId,
    /// The previous status.
    pub previous: Status,
    /// The observation.
    pub observation: Observation,
    /// How the pass ended.
    pub outcome: Outcome,
    /// Whether absence is verified.
    pub absent: bool,
}
