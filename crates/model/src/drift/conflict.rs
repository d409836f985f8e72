//! Conflicts: fields that two writers fight over.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};
use utoipa::ToSchema;

use super::FieldRef;
use crate::id::{ClusterId, ConflictId, OrgId};
use crate::order::Unit;

/// How a conflict is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ConflictDecision {
    /// Trueup's value is enforced again.
    Ours,
    /// The other writer's value becomes the desired state.
    Adopt,
    /// The field is left to the other writer.
    Ignore,
}

/// A decision about a conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The decision.
    pub decision: ConflictDecision,
    /// Who decided.
    pub principal: String,
    /// When.
    pub at: Timestamp,
    /// Until when it holds; none for ever.
    pub until: Option<Timestamp>,
}

/// A field that was reverted or adopted too often, so that its enforcement stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Its id.
    pub id: ConflictId,
    /// The tenant.
    pub org: OrgId,
    /// The project or service.
    pub unit: Unit,
    /// The cluster.
    pub cluster: ClusterId,
    /// The field.
    pub at: FieldRef,
    /// The other field manager, if the server recorded one.
    pub by: Option<String>,
    /// When it was raised.
    pub raised_at: Timestamp,
    /// The decision; none while it is open.
    pub settled: Option<Settlement>,
}
