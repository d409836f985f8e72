//! Logs on the wire: one JSON object on each line.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One line of a log, or something that is to be known about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// Which pod it is about; empty where it is about the whole service.
    pub pod: String,
    /// What the pod's program printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// What Trueup has to say: that a pod is simulated, or that it cannot be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}
