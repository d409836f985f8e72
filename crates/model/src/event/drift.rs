//! Facts about drift: what was seen, and what was decided. They hold no values of fields: a value
//! may be sensitive, and events are kept for ever.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::drift::{ConflictDecision, DivergenceClass};
use crate::id::{ConflictId, DivergenceId};
use crate::key::ResourceKey;

/// A cluster object differs from its desired state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftDetected {
    /// The object.
    pub key: ResourceKey,
    /// The field that differs.
    pub field: String,
}

/// The desired state was restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftReverted {
    /// The object.
    pub key: ResourceKey,
    /// The field that differed.
    pub field: String,
}

/// A difference is left alone, as decided by a policy or a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftIgnored {
    /// The object.
    pub key: ResourceKey,
    /// The field that differs.
    pub field: String,
}

/// A live value is proposed as the desired one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftProposed {
    /// The divergence.
    pub divergence: DivergenceId,
    /// The object.
    pub key: ResourceKey,
    /// The field that differs.
    pub field: String,
    /// When the proposal expires.
    pub expires_at: Timestamp,
}

/// A live value became the desired one. A rollback to the generation before undoes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftAdopted {
    /// The divergence.
    pub divergence: DivergenceId,
    /// The object.
    pub key: ResourceKey,
    /// The field that differed.
    pub field: String,
    /// The parameter that has the value now.
    pub parameter: String,
    /// The generation that a rollback returns to.
    pub undo: i64,
    /// Who approved it.
    pub principal: String,
}

/// A proposal was rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftRejected {
    /// The divergence.
    pub divergence: DivergenceId,
    /// The object.
    pub key: ResourceKey,
    /// The field that differs.
    pub field: String,
    /// Who rejected it.
    pub principal: String,
}

/// A divergence ended without a write of Trueup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftEnded {
    /// The object.
    pub key: ResourceKey,
    /// The field that differed.
    pub field: String,
    /// Its class.
    pub class: DivergenceClass,
}

/// Two writers fight over a field: its enforcement stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConflictRaised {
    /// The conflict.
    pub conflict: ConflictId,
    /// The object.
    pub key: ResourceKey,
    /// The field.
    pub field: String,
    /// The other field manager, if the server recorded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A person settled a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConflictSettled {
    /// The conflict.
    pub conflict: ConflictId,
    /// The object.
    pub key: ResourceKey,
    /// The field.
    pub field: String,
    /// The decision.
    pub decision: ConflictDecision,
    /// Until when it holds; none for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Who decided.
    pub principal: String,
}
