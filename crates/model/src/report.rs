//! What an executor says after a pass: evidence, outcome, and changes worth an event.

use serde::{Deserialize, Serialize};

use crate::id::OrgId;
use crate::key::ResourceKey;
use crate::observation::Observation;
use crate::order::Unit;
use crate::receipt::Receipt;
use crate::survey::Survey;

/// One unit after one pass of its executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Which unit.
    pub unit: Unit,
    /// The tenant.
    pub org: OrgId,
    /// The generation of the order that the pass worked on.
    pub generation: i64,
    /// What was seen, or nothing if the cluster could not be asked: then the last evidence stands.
    pub observation: Option<Observation>,
    /// How the pass ended.
    pub outcome: Outcome,
    /// What changed, for the event log.
    pub changes: Vec<ObjectChange>,
    /// The proof of absence, once a deletion is complete.
    pub receipt: Option<Receipt>,
    /// What a look into the namespace of a project came to, where that is for the record.
    pub survey: Option<NamespaceSurvey>,
}

/// What a look into the namespace of a project that shall be gone came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceSurvey {
    /// Nothing in it was somebody else's. It is deleted once this is on record.
    Clear(Survey),
    /// Something keeps it: what is on record of an earlier look counts no more.
    Kept,
}

/// How a pass ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Outcome {
    /// Reality carries the order; nothing was left to write.
    Converged,
    /// Something must happen first, and it is on its way.
    Waiting {
        /// What is waited for.
        on: String,
    },
    /// The cluster cannot be asked now. Not a failure.
    Deferred {
        /// Why.
        why: String,
    },
    /// A secret it needs cannot be opened, so nothing was sent. What runs goes on running.
    Locked {
        /// Which key is missing or wrong, and what to do.
        why: String,
    },
    /// There is something to do, and a freeze forbids it.
    #[serde(alias = "held")]
    Frozen {
        /// Who froze what and why, and what waits.
        why: String,
    },
    /// Trueup itself has a defect with this unit. Nothing is known of what it did last.
    Broken {
        /// What happened and what to do.
        why: String,
    },
    /// Going on would be wrong; a person has to act.
    Blocked {
        /// What blocks, and what would unblock it.
        why: String,
    },
    /// The cluster was told more than the database knows: the database is older than the world.
    /// Nothing is written until that is explained.
    Outdated {
        /// What was seen, and what to do.
        why: String,
    },
    /// The cluster takes everything but these objects: somebody has to change them, or the rule that
    /// refuses them. They are offered again now and then.
    Refused {
        /// Which objects, and what was said about each.
        why: String,
    },
    /// The cluster broke; it is tried again.
    Failed {
        /// What it said.
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

/// A transition of one owned object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum ObjectChange {
    /// Trueup made it.
    Created {
        /// Which object.
        key: ResourceKey,
    },
    /// Trueup changed it to a newer generation.
    Updated {
        /// Which object.
        key: ResourceKey,
    },
    /// Trueup removed it.
    Removed {
        /// Which object.
        key: ResourceKey,
    },
    /// It was there, and somebody else took it away; it was made again.
    DeletedExternally {
        /// Which object.
        key: ResourceKey,
    },
    /// Somebody else changed it; it was put right.
    ModifiedExternally {
        /// Which object.
        key: ResourceKey,
        /// The first field that differed.
        field: String,
        /// Who wrote it, as the cluster's record of field managers says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
}
