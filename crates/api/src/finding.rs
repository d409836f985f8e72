//! Findings on the wire: objects in a cluster that say they are ours and that nobody knows of.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A finding as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// Its id: `fnd_…`.
    pub id: String,
    /// The cluster it is in: `cls_…`.
    pub cluster: String,
    /// `orphan`: Trueup made it and nothing records it. `unproved`: it says that it is ours and cannot
    /// prove it.
    pub class: String,
    /// The object: `Deployment/namespace/name`.
    pub object: String,
    /// Which incarnation of it.
    pub uid: String,
    /// What it says it belongs to: `svc_…` or `prj_…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// When it was found.
    #[schema(value_type = String, format = DateTime)]
    pub found_at: Timestamp,
    /// When it was last seen.
    #[schema(value_type = String, format = DateTime)]
    pub seen_at: Timestamp,
    /// When it was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub closed_at: Option<Timestamp>,
    /// Why it was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_why: Option<String>,
    /// Who asked for its removal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove_by: Option<String>,
    /// Why it could not be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_why: Option<String>,
}

/// A list of findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingList {
    /// In the order in which they were found.
    pub items: Vec<Finding>,
    /// The `after` of the next page, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// How to remove one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"confirm": 11}))]
pub struct FindingRemoveBody {
    /// The number of this removal within the hour, where the answer was that many want to be confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 11)]
    pub confirm: Option<u64>,
}
