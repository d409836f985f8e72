//! The deletion receipt: the evidence that nothing of a unit is left. Stored for ever.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::key::ResourceKey;
use crate::survey::{Remains, Survey};

/// What was verified about the deletion of a unit, and what was not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DeletionReceipt)]
pub struct Receipt {
    /// Each recorded key that the final read found absent.
    pub absent: Vec<Absence>,
    /// Recorded keys that were not verified absent: only a forced deletion has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unproven: Vec<Unproven>,
    /// Pods whose processes were not observed to end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unconfirmed: Vec<LostPod>,
    /// The executor that verified absence.
    pub observer: String,
    /// When the first read began.
    pub began_at: Timestamp,
    /// When the last read ended.
    pub verified_at: Timestamp,
    /// Each read of every key. There are two if a call may still have been in flight at the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<Reading>,
    /// How strong this evidence is.
    pub level: ProofLevel,
    /// Who forced the deletion, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<Force>,
    /// The survey made before a project's namespace was deleted. Without one, Trueup did not delete
    /// the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survey: Option<Survey>,
    /// What a forced deletion left in a project's namespace besides the recorded keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remains: Option<Remains>,
}

impl Receipt {
    /// A receipt for a unit whose objects were all found absent by these reads.
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

    /// How many objects were not verified absent, as far as they could be counted.
    #[must_use]
    pub fn unproven_count(&self) -> usize {
        let others = self.remains.as_ref().map_or(0, Remains::count);
        self.unproven.len().saturating_add(others)
    }
}

/// One key that was read and found absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReceiptAbsence)]
pub struct Absence {
    /// Its key.
    pub key: ResourceKey,
    /// The last known uid, if there ever was one.
    pub uid: Option<String>,
    /// The last resourceVersion this executor observed while the object was being deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// One key that was not verified absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReceiptUnproven)]
pub struct Unproven {
    /// Its key.
    pub key: ResourceKey,
    /// The uid that was found or last known.
    pub uid: Option<String>,
    /// Why it is not verified absent: it still exists, or could not be read.
    pub why: String,
}

/// A pod that is gone from the API while its containers were last observed running.
///
/// It was force-deleted, or its node was lost. Its processes may still run there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReceiptLostPod)]
pub struct LostPod {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The node it last ran on.
    pub node: String,
}

/// One read of every recorded key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReceiptReading)]
pub struct Reading {
    /// When it began.
    pub began_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
}

/// The request to complete a deletion without verified absence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReceiptForce)]
pub struct Force {
    /// Who requested it.
    pub principal: String,
    /// The reason they gave.
    pub reason: String,
}

/// How strong a receipt is. Absence from the API does not mean that processes on a lost node ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ProofLevel {
    /// The API server has no object under any of the keys.
    ApiAbsence,
    /// The same, but the processes of some pods were not observed to end.
    ProcessesUnconfirmed,
    /// The deletion was forced before absence was verified.
    Forced,
}
