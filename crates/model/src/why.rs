//! Why a service is in its state: the chain from the request to the observation.

use jiff::Timestamp;
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::drift::Divergence;
use crate::freeze::Freeze;
use crate::id::{ConflictId, DivergenceId, EventId, ReleaseId};
use crate::key::{Kind, ResourceKey};
use crate::service::DesiredState;
use crate::status::{Inputs, Status};

/// The stored facts about one service that an explanation is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its desired state.
    pub desired: DesiredState,
    /// Its newest accepted generation.
    pub generation: i64,
    /// The name of its cluster.
    pub cluster: String,
    /// Who requested this generation.
    pub asked: Asked,
    /// Its wake, if one is queued, running or dead.
    pub wake: Option<WakeSeen>,
    /// The events of this generation, oldest first.
    pub events: Vec<EventSeen>,
    /// Every key ever recorded for it, with the uid last observed.
    pub objects: Vec<(ResourceKey, Option<String>)>,
    /// The last projected status.
    pub status: Status,
    /// The inputs of that projection.
    pub inputs: Option<Inputs>,
    /// The kinds it depends on whose watch is stale.
    pub silent: Vec<Kind>,
    /// The widest freeze in force on it now, which may be newer than the last pass.
    pub freeze: Option<Freeze>,
    /// The recorded differences that stand, oldest first.
    pub divergences: Vec<DivergenceSeen>,
}

/// The request behind a generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Its release.
    pub release: ReleaseId,
    /// The operation: `declare`, `pause`, `rollback` …
    pub action: String,
    /// Who requested it.
    pub principal: String,
    /// When it was accepted.
    pub at: Timestamp,
}

/// A wake in the work queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WakeSeen {
    /// `queued`, `running` or `dead`.
    pub state: String,
    /// When it is due.
    pub due_at: Timestamp,
    /// The number of attempts.
    pub attempts: i32,
    /// The last error.
    pub error: Option<String>,
}

/// A recorded difference that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DivergenceSeen {
    /// Its id.
    pub id: DivergenceId,
    /// The difference.
    pub divergence: Divergence,
    /// When it was first seen.
    pub since: Timestamp,
    /// When a proposal to adopt its value expires.
    pub expires_at: Option<Timestamp>,
    /// The open conflict about its field.
    pub conflict: Option<ConflictId>,
}

/// An event in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSeen {
    /// Its id.
    pub id: EventId,
    /// Its type.
    pub kind: String,
    /// When it happened.
    pub at: Timestamp,
}

/// The explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// The explanation in one sentence.
    pub answer: String,
    /// The chain, from the request to what it waits for.
    pub links: Vec<Link>,
    /// How to unblock it; none if nothing blocks it.
    pub unblock: Option<String>,
}

/// One link of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Which link.
    pub step: LinkStep,
    /// The facts, as a sentence.
    pub text: String,
    /// When, or since when.
    pub at: Option<Timestamp>,
    /// The evidence: ids, and uids with their resourceVersions.
    pub proof: Vec<String>,
}

/// The links of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[schema(as = WhyStep)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum LinkStep {
    /// The request.
    Asked,
    /// The order, or the wake for it.
    Ordered,
    /// A freeze.
    Frozen,
    /// The objects that were applied.
    Applied,
    /// The last observation.
    Observed,
    /// A difference that another writer made.
    Diverged,
    /// What it waits for.
    Waiting,
}
