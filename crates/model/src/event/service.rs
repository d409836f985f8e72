//! Facts about services.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::PreviewRequestId;
use crate::status::{Health, Phase};

/// A service's change was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceQueued {
    /// Whether the change is a deletion.
    pub deletes: bool,
    /// Who requested it.
    pub principal: String,
    /// The operation: `declare`, `pause`, `rollback` …
    #[serde(default)]
    pub action: String,
    /// The exact preview it was accepted with.
    #[serde(default, alias = "plan", skip_serializing_if = "Option::is_none")]
    pub preview: Option<PreviewRequestId>,
}

/// Phase or health changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServicePhaseChanged {
    /// Phase now.
    pub phase: Phase,
    /// Health now.
    pub health: Health,
    /// Why it has not converged, in one sentence.
    pub message: Option<String>,
}

/// All recorded objects were read and found absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AbsenceVerified {
    /// How many keys were verified absent.
    pub keys: usize,
}

/// A service's deletion was force-completed before absence was verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceDeleteForced {
    /// Who requested it.
    pub principal: String,
    /// The reason they gave.
    pub reason: String,
    /// How many keys were not verified absent.
    pub unproven: usize,
}

/// A service was frozen: it is observed and not written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceFrozen {
    /// Why.
    pub reason: String,
    /// Who requested it.
    pub principal: String,
}

/// A service was unfrozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceUnfrozen {
    /// Who requested it.
    pub principal: String,
}

/// A service was paused by its active hours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceScheduledOff {
    /// When it is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// A service was resumed by its active hours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceScheduledOn {
    /// When it is paused again; absent if its hours were removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// A service was not resumed at the beginning of its active hours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceScheduleRefused {
    /// Why: its org has no budget for it.
    pub why: String,
}
