//! A wake: a hint that a unit wants looking at. It carries an id and nothing else.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{ClusterId, OrgId};
use crate::order::Unit;

/// How often a unit may meet a defect before it is left alone until somebody looks.
pub const POISON_TRIES: i32 = 5;

/// Which queue a wake waits in, so that none starves another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Somebody changed something and is watching.
    UserChange,
    /// Something has to go.
    Delete,
    /// Something may differ from what was promised.
    Repair,
    /// Everything is looked at, one after the other.
    Sweep,
}

impl Lane {
    /// Every lane.
    pub const ALL: [Self; 4] = [Self::UserChange, Self::Delete, Self::Repair, Self::Sweep];

    /// The text in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UserChange => "user_change",
            Self::Delete => "delete",
            Self::Repair => "repair",
            Self::Sweep => "sweep",
        }
    }

    /// Whether somebody asked for what waits here. Only that gives a unit that met a defect new tries.
    #[must_use]
    pub const fn is_asked(self) -> bool {
        match self {
            Self::UserChange | Self::Delete => true,
            Self::Repair | Self::Sweep => false,
        }
    }
}

/// Where a wake stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WakeState {
    /// It waits to be claimed.
    Queued,
    /// It is worked on.
    Running,
    /// It met a defect too often and waits for an operator.
    Dead,
}

impl WakeState {
    /// The text in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Dead => "dead",
        }
    }
}

/// A wake as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wake {
    /// What wants looking at.
    pub unit: Unit,
    /// The tenant.
    pub org: OrgId,
    /// The cluster it runs in.
    pub cluster: ClusterId,
    /// Which queue it waits in.
    pub lane: Lane,
    /// Where it stands.
    pub state: WakeState,
    /// From when on it may be claimed.
    pub due_at: Timestamp,
    /// How often it was tried since somebody last asked.
    pub attempts: i32,
    /// How often that met a defect.
    pub poison: i32,
    /// What happened last.
    pub last_error: Option<String>,
    /// When it was given up.
    pub died_at: Option<Timestamp>,
    /// The trace of the request that asked for it.
    pub trace: Option<String>,
}

/// A wake that this process has claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// What wants looking at.
    pub unit: Unit,
    /// The tenant.
    pub org: OrgId,
    /// The cluster it runs in.
    pub cluster: ClusterId,
    /// Which queue it waited in.
    pub lane: Lane,
    /// The request that was current when it was claimed; a newer one survives finishing.
    pub seq: i64,
    /// How often it was tried since it last ended well.
    pub attempts: i32,
    /// How often that met a defect.
    pub poison: i32,
    /// Whether the cluster is to be read afresh.
    pub fresh: bool,
    /// The trace of the request that asked for it.
    pub trace: Option<String>,
}
