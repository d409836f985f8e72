//! Divergences: one difference each, with its values, its writer and how it ended.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{Display, EnumString, IntoStaticStr, VariantNames};
use utoipa::ToSchema;

use super::Verdict;
use crate::id::{ClusterId, DivergenceId, OrgId};
use crate::key::ResourceKey;
use crate::money::Money;
use crate::order::Unit;

/// A difference between an object and what Trueup wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Divergence {
    /// The object.
    pub key: ResourceKey,
    /// The path of the field; empty for the object itself.
    #[serde(default)]
    pub field: String,
    /// What kind of difference it is.
    pub class: DivergenceClass,
    /// The desired value; null for none. A digest where the object is a Secret.
    #[serde(default)]
    pub wanted: Value,
    /// The live value; null for none. A digest where the object is a Secret.
    #[serde(default)]
    pub live: Value,
    /// The field manager that wrote it, if the server recorded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// What became of it so far.
    pub state: DivergenceState,
}

/// The class of a divergence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum DivergenceClass {
    /// A field that Trueup sets has another value.
    Edited,
    /// The object was deleted.
    Deleted,
    /// An object that Trueup created and that no record wants; see findings.
    Extra,
    /// Another writer added something where only Trueup may write.
    ForeignWriter,
    /// The object's ownership proof or stamp was changed.
    BrokenProof,
    /// A healthy service became worse without a change of its desired state.
    Regressed,
}

/// What became of a divergence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum DivergenceState {
    /// Seen, and will be reverted.
    Open,
    /// Its value is proposed for adoption.
    Proposed,
    /// It is left alone, as decided.
    Ignored,
    /// It is left alone until a person settles a conflict.
    InConflict,
    /// Ended: Trueup reverted it.
    Reverted,
    /// Ended: its value became the desired state.
    Adopted,
    /// Ended: another writer, or the cluster, restored the desired value.
    Restored,
    /// Ended: the desired state changed, or the service was deleted.
    Superseded,
    /// Ended: the proposal was rejected.
    Rejected,
    /// Ended: there was no decision about the proposal in time.
    Expired,
}

impl DivergenceState {
    /// Whether this is an end.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        match self {
            Self::Open | Self::Proposed | Self::Ignored | Self::InConflict => false,
            Self::Reverted
            | Self::Adopted
            | Self::Restored
            | Self::Superseded
            | Self::Rejected
            | Self::Expired => true,
        }
    }
}

/// A recorded divergence. It stays in the database after it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DivergenceRecord {
    /// Its id.
    pub id: DivergenceId,
    /// The tenant.
    pub org: OrgId,
    /// The project or service.
    pub unit: Unit,
    /// The cluster.
    pub cluster: ClusterId,
    /// The difference, and what became of it.
    pub divergence: Divergence,
    /// When it was first seen.
    pub first_seen_at: Timestamp,
    /// When it was last seen.
    pub last_seen_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When a proposal expires.
    pub expires_at: Option<Timestamp>,
    /// Who adopted or rejected it.
    pub decided_by: Option<String>,
    /// What it costs per hour; none where the service has no plan.
    pub hourly: Option<Money>,
}
