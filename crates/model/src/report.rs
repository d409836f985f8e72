//! The report of an executor after a pass: observation, outcome, and changes for the event log.

use serde::{Deserialize, Serialize};

use crate::drift::Divergence;
use crate::id::OrgId;
use crate::key::ResourceKey;
use crate::observation::Observation;
use crate::order::Unit;
use crate::receipt::Receipt;
use crate::survey::Survey;

/// The result of one pass of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The unit.
    pub unit: Unit,
    /// The tenant.
    pub org: OrgId,
    /// The generation of the order.
    pub generation: i64,
    /// What was observed; none if the cluster was unreachable: then the last observation stays.
    pub observation: Option<Observation>,
    /// How the pass ended.
    pub outcome: Outcome,
    /// The changes to objects, for the event log.
    pub changes: Vec<ObjectChange>,
    /// The deletion receipt, once absence is verified.
    pub receipt: Option<Receipt>,
    /// The result of a survey of the project's namespace, if it has to be recorded.
    pub survey: Option<NamespaceSurvey>,
}

/// The result of surveying the namespace of a project that is being deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceSurvey {
    /// No foreign object is in it. The namespace is deleted once this is recorded.
    Clear(Survey),
    /// Something blocks its deletion: an earlier recorded survey is void.
    Kept,
}

/// How a pass ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Outcome {
    /// The cluster matches the order; nothing was left to write.
    Converged,
    /// Something else must complete first, and is in progress.
    Waiting {
        /// What the pass waits for.
        on: String,
    },
    /// The cluster is unreachable. Not a failure.
    Deferred {
        /// Why.
        why: String,
    },
    /// A secret cannot be decrypted, so nothing was written. What runs keeps running.
    Locked {
        /// Which key is missing or wrong, and what to do.
        why: String,
    },
    /// There are changes to make, and a freeze forbids them.
    #[serde(alias = "held")]
    Frozen {
        /// Who froze what and why, and which changes wait.
        why: String,
    },
    /// A defect in Trueup ended the pass. What the pass did is unknown.
    Broken {
        /// What happened and what to do.
        why: String,
    },
    /// It is unsafe to continue; a person has to act.
    Blocked {
        /// What blocks, and what would unblock it.
        why: String,
    },
    /// The cluster has a newer generation than the database, which was probably restored from a
    /// backup. Nothing is written until an operator resolves this.
    Outdated {
        /// What was observed, and what to do.
        why: String,
    },
    /// The cluster rejects these objects and accepts all others. The objects or the policy that
    /// rejects them must change; the writes are retried with backoff.
    Refused {
        /// Which objects, and the error for each.
        why: String,
    },
    /// A call to the cluster failed; it is retried.
    Failed {
        /// The cluster's error.
        why: String,
    },
}

impl Outcome {
    /// A bounded label for metrics.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Converged => "converged",
            Self::Waiting { .. } => "waiting",
            Self::Deferred { .. } => "deferred",
            Self::Locked { .. } => "locked",
            Self::Frozen { .. } => "frozen",
            Self::Broken { .. } => "broken",
            Self::Blocked { .. } => "blocked",
            Self::Outdated { .. } => "outdated",
            Self::Refused { .. } => "refused",
            Self::Failed { .. } => "failed",
        }
    }
}

/// A change to one owned object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum ObjectChange {
    /// Trueup created it.
    Created {
        /// The object.
        key: ResourceKey,
    },
    /// Trueup updated it to a newer generation.
    Updated {
        /// The object.
        key: ResourceKey,
    },
    /// Trueup removed it.
    Removed {
        /// The object.
        key: ResourceKey,
    },
    /// It was deleted outside Trueup; Trueup created it again.
    DeletedExternally {
        /// The object.
        key: ResourceKey,
    },
    /// It was changed outside Trueup; Trueup reverted the change.
    ModifiedExternally {
        /// The object.
        key: ResourceKey,
        /// Every field that differed and was reverted.
        fields: Vec<Divergence>,
    },
}
