//! The absence receipt: why Trueup says that nothing of a unit is left. Stored for ever.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::key::ResourceKey;
use crate::survey::{Remains, Survey};

/// What was proved about the end of a unit, and what was not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Each recorded key that the closing read found absent.
    pub absent: Vec<Absence>,
    /// Recorded keys that were not proved absent: only a forced end has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unproven: Vec<Unproven>,
    /// Pods whose processes were not seen to end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unconfirmed: Vec<LostPod>,
    /// Who looked.
    pub observer: String,
    /// When the first read of the proof began.
    pub began_at: Timestamp,
    /// When the last read of the proof ended.
    pub verified_at: Timestamp,
    /// Each read of every key. There are two where a call may still have been under way at the
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<Reading>,
    /// How much this proves.
    pub level: ProofLevel,
    /// Who ended it without proof, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<Force>,
    /// What was looked at before a project's namespace was deleted, by whoever did that. Where there is
    /// none, Trueup did not delete it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survey: Option<Survey>,
    /// What a forced end left in a project's namespace beside the recorded keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remains: Option<Remains>,
}

impl Receipt {
    /// That everything was found absent, the last time by the last of these reads.
    #[must_use]
    pub fn of_absence(absent: Vec<Absence>, observer: &str, reads: Vec<Reading>) -> Self {
        Self {
            absent,
            unproven: Vec::new(),
            unconfirmed: Vec::new(),
            observer: observer.to_owned(),
            began_at: reads.first().map(|read| read.began_at).unwrap_or_default(),
            verified_at: reads.last().map(|read| read.ended_at).unwrap_or_default(),
            reads,
            level: ProofLevel::ApiAbsence,
            force: None,
            survey: None,
            remains: None,
        }
    }

    /// How many objects were not proved to be gone, as far as anybody could count them.
    #[must_use]
    pub fn unproven_count(&self) -> usize {
        let others = self.remains.as_ref().map_or(0, Remains::count);
        self.unproven.len().saturating_add(others)
    }
}

/// One key that was read and found absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absence {
    /// Which object.
    pub key: ResourceKey,
    /// The incarnation that was last known, if there ever was one.
    pub uid: Option<String>,
    /// The version it was last seen at by this observer while it was being deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// One key that was not proved absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unproven {
    /// Which object.
    pub key: ResourceKey,
    /// The incarnation that was found or last known.
    pub uid: Option<String>,
    /// Why it is not proved: it is still there, or could not be read.
    pub why: String,
}

/// A pod that left the API while its containers were last seen running: force-deleted, or on a node
/// that was lost. Its processes may still run there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostPod {
    /// Its name.
    pub name: String,
    /// Which incarnation.
    pub uid: String,
    /// The node it was last seen on.
    pub node: String,
}

/// One read of every recorded key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// When it began.
    pub began_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
}

/// Why a deletion shall end without proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Force {
    /// Who asked for it.
    pub principal: String,
    /// In their words.
    pub reason: String,
}

/// What a receipt proves. API absence is not process absence on a lost node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofLevel {
    /// The API server has no object under any of the keys.
    ApiAbsence,
    /// The same, but processes of some pods were not seen to end.
    ProcessesUnconfirmed,
    /// Somebody ended the deletion before everything was proved to be gone.
    Forced,
}
