//! What people see of a service: projected from observation alone, with its evidence.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::ClusterId;
use crate::observation::{Cause, Observation};
use crate::report::Outcome;
use crate::service::DesiredState;

/// Where a service is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Recorded; nothing was done yet.
    Accepted,
    /// Its first generation is being made real.
    Creating,
    /// It runs as promised.
    Running,
    /// A newer generation is being made real.
    Updating,
    /// Its one run has ended; its health says how.
    Completed,
    /// It exists and does not run, as promised.
    Paused,
    /// It is being taken down.
    Deleting,
    /// A person has to act before anything goes on.
    Blocked,
    /// Verified to be gone.
    Deleted,
}

impl Phase {
    /// The text in the database and on screen.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Creating => "creating",
            Self::Running => "running",
            Self::Updating => "updating",
            Self::Completed => "completed",
            Self::Paused => "paused",
            Self::Deleting => "deleting",
            Self::Blocked => "blocked",
            Self::Deleted => "deleted",
        }
    }
}

/// How well it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Every pod that was promised is ready.
    Healthy,
    /// On its way, nothing wrong so far.
    Progressing,
    /// Some pods serve, not all.
    Degraded,
    /// No pod serves, and the cause is known.
    Error,
    /// There is no fresh evidence.
    Unknown,
}

impl Health {
    /// The text in the database and on screen.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Progressing => "progressing",
            Self::Degraded => "degraded",
            Self::Error => "error",
            Self::Unknown => "unknown",
        }
    }
}

/// Whether what is shown is the end of the story.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reconciliation {
    /// Reality carries the newest promise.
    Settled,
    /// Work is under way or queued.
    Pending,
    /// Reality differs and nothing newer was promised.
    Diverged,
}

/// Why it is not there yet: one typed reason and a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Which.
    pub reason: Reason,
    /// What it means here and what to do.
    pub message: String,
    /// The cause outside of Trueup, where there is one, and who says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<CauseSeen>,
}

/// A cause and the object that shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseSeen {
    /// Which.
    pub cause: Cause,
    /// What shows it: `Pod/web-0`, `Deployment/web`.
    pub object: String,
    /// Which incarnation of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// Reasons for a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Something must happen first.
    Waiting,
    /// The cluster does not answer.
    ClusterUnreachable,
    /// A secret it needs cannot be opened.
    SecretsLocked,
    /// A freeze forbids what there is to do.
    Frozen,
    /// Trueup itself has a defect here.
    Defect,
    /// A person has to act.
    Blocked,
    /// The database is older than what the cluster was told: it was restored, or lost its end.
    DatabaseOlder,
    /// The cluster refuses an object.
    Refused,
    /// The cluster refused or broke.
    ClusterError,
    /// Pods do not run.
    PodsNotReady,
    /// The last run of a cron or a job ended with an error.
    RunFailed,
    /// The cluster does not take a kind of objects that belongs to it.
    PartMissing,
    /// What was seen last is too old to be believed.
    Stale,
}

/// Where a status comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The cluster that was asked.
    pub cluster: ClusterId,
    /// The workload's uid, if it was seen.
    pub uid: Option<String>,
    /// The workload's resourceVersion, if it was seen.
    pub resource_version: Option<String>,
    /// When it was seen.
    pub observed_at: Timestamp,
    /// Whether its pods run on simulated nodes.
    pub simulated: bool,
}

/// What is projected of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Where it is in its life.
    pub phase: Phase,
    /// Since when.
    pub since: Timestamp,
    /// How well it does.
    pub health: Health,
    /// Why it is not there yet, in reason order.
    pub conditions: Vec<Condition>,
    /// The newest generation that reality carried whole.
    pub applied_generation: Option<i64>,
    /// What this is based on; absent until something was observed.
    pub evidence: Option<Evidence>,
}

impl Status {
    /// The status of something that was just recorded.
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

/// Everything a projection is computed from. Stored, so that it can be computed again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inputs {
    /// What was promised about its existence when this was projected.
    pub desired: DesiredState,
    /// The generation that was promised when this was projected.
    pub generation: i64,
    /// Where it runs.
    pub cluster: ClusterId,
    /// The status before.
    pub previous: Status,
    /// What was seen.
    pub observation: Observation,
    /// How the pass ended.
    pub outcome: Outcome,
    /// Whether absence is proved.
    pub absent: bool,
}
