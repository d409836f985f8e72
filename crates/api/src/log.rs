//! Logs on the wire: one JSON object per line.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One line of a log, or a notice about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// The pod; empty if a notice is about the whole service.
    pub pod: String,
    /// The line that the pod wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// A notice from Trueup, such as a pod whose log cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}
