//! Wakes on the wire: what waits to be worked on, for operators.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A wake as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Wake {
    /// What wants looking at: `svc_…` or `prj_…`.
    pub subject: String,
    /// The org it belongs to: `org_…`.
    pub org: String,
    /// The cluster it runs in: `cls_…`.
    pub cluster: String,
    /// `user_change`, `delete`, `repair` or `sweep`.
    pub lane: String,
    /// `queued`, `running` or `dead`.
    pub state: String,
    /// From when on it may be worked on.
    #[schema(value_type = String, format = DateTime)]
    pub due_at: Timestamp,
    /// How often it was tried since somebody last asked.
    pub attempts: i32,
    /// How often that met a defect. After five it is dead.
    pub defects: i32,
    /// What happened last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub died_at: Option<Timestamp>,
    /// The trace of the request that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// A list of wakes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WakeList {
    /// In the order of their subjects' ids.
    pub items: Vec<Wake>,
    /// The `after` of the next page, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
