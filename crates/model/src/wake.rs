//! A wake: a work-queue item that requests a pass of a unit. Wakes of one unit coalesce.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::id::{ClusterId, OrgId};
use crate::order::Unit;

/// After this many defects a wake is dead until it is requeued.
pub const POISON_TRIES: i32 = 5;

/// The priority class of a wake. Lanes are served in turn, so that none starves another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[schema(as = WakeLane)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Lane {
    /// A user's change.
    UserChange,
    /// A deletion.
    Delete,
    /// The observed state may differ from the accepted one.
    Repair,
    /// A periodic check of all units, one after the other.
    Sweep,
}

impl Lane {
    /// Every lane.
    pub const ALL: [Self; 4] = [Self::UserChange, Self::Delete, Self::Repair, Self::Sweep];

    /// Whether wakes in this lane come from requests. Only a request resets the count of defects.
    #[must_use]
    pub const fn is_asked(self) -> bool {
        match self {
            Self::UserChange | Self::Delete => true,
            Self::Repair | Self::Sweep => false,
        }
    }
}

/// The state of a wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum WakeState {
    /// It waits to be claimed.
    Queued,
    /// It is claimed.
    Running,
    /// It met too many defects and waits for an operator to requeue it.
    Dead,
}

/// A wake as listed for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wake {
    /// The unit.
    pub unit: Unit,
    /// The tenant.
    pub org: OrgId,
    /// The cluster it runs in.
    pub cluster: ClusterId,
    /// Its lane.
    pub lane: Lane,
    /// Its state.
    pub state: WakeState,
    /// When it becomes due.
    pub due_at: Timestamp,
    /// Attempts since the last request.
    pub attempts: i32,
    /// How many of them met a defect.
    pub poison: i32,
    /// The last error.
    pub last_error: Option<String>,
    /// When it became dead.
    pub died_at: Option<Timestamp>,
    /// The trace id of the request that queued it.
    pub trace: Option<String>,
}

/// A wake claimed by this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The unit.
    pub unit: Unit,
    /// The tenant.
    pub org: OrgId,
    /// The cluster it runs in.
    pub cluster: ClusterId,
    /// Its lane.
    pub lane: Lane,
    /// The sequence number of the newest request when it was claimed; a newer request stays queued.
    pub seq: i64,
    /// Attempts since the last success.
    pub attempts: i32,
    /// How many of them met a defect.
    pub poison: i32,
    /// Whether the pass must use live reads instead of the cache.
    pub fresh: bool,
    /// The trace id of the request that queued it.
    pub trace: Option<String>,
}
