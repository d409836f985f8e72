//! Findings: objects in a cluster with our label and without a record.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::id::{ClusterId, FindingId};
use crate::key::{Kind, ResourceKey};

/// The result of sweeping one kind: all its objects that no order knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepResult {
    /// The kind.
    pub kind: Kind,
    /// The objects that no order knows; empty if all are known.
    pub candidates: Vec<OrphanCandidate>,
}

/// An object with our label that no order knows. The database may still know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanCandidate {
    /// Its key.
    pub key: ResourceKey,
    /// Its uid.
    pub uid: String,
    /// Its resourceVersion when it was listed.
    pub resource_version: String,
    /// The unit named by its label: `svc_…` or `prj_…`.
    pub unit: Option<String>,
    /// Whether its proof is valid: then Trueup created it, for that unit and under that name.
    pub proved: bool,
}

/// The class of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum FindingClass {
    /// Trueup created it, and no unit has a record of it, or only a deleted one.
    Orphan,
    /// It has our label and no valid proof.
    Unproved,
}

/// A finding. It stays in the database after it is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its id.
    pub id: FindingId,
    /// Its cluster.
    pub cluster: ClusterId,
    /// Its class.
    pub class: FindingClass,
    /// Its key.
    pub key: ResourceKey,
    /// Its uid.
    pub uid: String,
    /// Its resourceVersion when it was last listed.
    pub resource_version: String,
    /// The unit named by its label.
    pub unit: Option<String>,
    /// When it was found.
    pub found_at: Timestamp,
    /// When it was last listed.
    pub seen_at: Timestamp,
    /// When it was closed, and why.
    pub closed: Option<(Timestamp, String)>,
    /// Who requested its removal.
    pub remove_by: Option<String>,
    /// Why it could not be removed, if so.
    pub kept_why: Option<String>,
}
