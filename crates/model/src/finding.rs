//! Findings: objects in a cluster that say they are ours and that nobody here knows of.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{ClusterId, FindingId};
use crate::key::{Kind, ResourceKey};

/// One kind, looked at as a whole: everything of it that no order knows. Nothing means that all is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepResult {
    /// Which kind.
    pub kind: Kind,
    /// What no order knows.
    pub candidates: Vec<OrphanCandidate>,
}

/// An object with our label that no order knows. It is no finding yet: the database may know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanCandidate {
    /// Where it stands.
    pub key: ResourceKey,
    /// Which incarnation.
    pub uid: String,
    /// Its version when it was seen.
    pub resource_version: String,
    /// What it says it belongs to: `svc_…` or `prj_…`.
    pub unit: Option<String>,
    /// Whether its proof holds: then Trueup made it, for that unit and under that name.
    pub proved: bool,
}

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingClass {
    /// Trueup made it, and nothing records it, or only something that is verified to be gone.
    Orphan,
    /// It says that it is ours and cannot prove it.
    Unproved,
}

impl FindingClass {
    /// The text in the database and on screen.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Orphan => "orphan",
            Self::Unproved => "unproved",
        }
    }
}

/// Something that was found. It stays on record after it is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its id.
    pub id: FindingId,
    /// Where it was found.
    pub cluster: ClusterId,
    /// What is wrong with it.
    pub class: FindingClass,
    /// Where it stands.
    pub key: ResourceKey,
    /// Which incarnation.
    pub uid: String,
    /// Its version when it was last seen.
    pub resource_version: String,
    /// What it says it belongs to.
    pub unit: Option<String>,
    /// When it was found.
    pub found_at: Timestamp,
    /// When it was last seen.
    pub seen_at: Timestamp,
    /// When it was closed, and why.
    pub closed: Option<(Timestamp, String)>,
    /// Who asked for its removal.
    pub remove_by: Option<String>,
    /// Why it could not be removed.
    pub kept_why: Option<String>,
}
