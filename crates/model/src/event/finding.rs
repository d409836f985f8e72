//! Facts about findings.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::finding::FindingClass;
use crate::key::ResourceKey;

/// A sweep found an object with our label and without a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingOpened {
    /// Which object.
    pub key: ResourceKey,
    /// What is wrong with it.
    pub class: FindingClass,
    /// The unit named by its label.
    pub of: Option<String>,
}

/// The object of a finding is gone, is recorded now, or was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingClosed {
    /// Which object.
    pub key: ResourceKey,
    /// Which of these is the case.
    pub why: String,
}

/// The removal of a finding's object was requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingRemovalRequested {
    /// Which object.
    pub key: ResourceKey,
    /// Who requested it.
    pub principal: String,
}

/// The object of a finding could not be removed; it stays until removal is requested again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingKept {
    /// Which object.
    pub key: ResourceKey,
    /// Why.
    pub why: String,
}
