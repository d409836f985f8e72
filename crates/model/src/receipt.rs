//! The absence receipt: why Trueup says that nothing of a service is left. Stored for ever.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::key::ResourceKey;

/// Proof that everything ever attempted for a unit is gone from its cluster's API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Each key that was ever recorded, and what the fresh read of it answered.
    pub absent: Vec<Absence>,
    /// Who looked.
    pub observer: String,
    /// When the first read of the proof began.
    pub began_at: Timestamp,
    /// When the last read of the proof ended.
    pub verified_at: Timestamp,
    /// How much this proves.
    pub level: ProofLevel,
}

/// One key that was read and found absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absence {
    /// Which object.
    pub key: ResourceKey,
    /// The incarnation that was last known, if there ever was one.
    pub uid: Option<String>,
}

/// What a receipt proves. API absence is not process absence on a lost node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofLevel {
    /// The API server has no object under any of the keys.
    ApiAbsence,
}
