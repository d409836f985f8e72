//! Wakes: the work queue, for operators.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::wake::{Lane, WakeState};
use trueup_model::{ClusterId, OrgId};
use utoipa::ToSchema;

use crate::client::{Client, ClientError, query, segment};
use crate::service::NoBody;

/// A wake as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Wake {
    /// The unit to reconcile: `svc_…` or `prj_…`.
    pub subject: String,
    /// The org of the unit.
    #[schema(value_type = OrgId)]
    pub org: String,
    /// The cluster the unit runs in.
    #[schema(value_type = ClusterId)]
    pub cluster: String,
    /// The priority class.
    pub lane: Lane,
    /// The state of the wake.
    pub state: WakeState,
    /// The earliest time of the next attempt.
    pub due_at: Timestamp,
    /// The attempts since the last request.
    pub attempts: i32,
    /// The attempts that failed because of a defect. After five the wake is dead.
    pub defects: i32,
    /// The last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When it became dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub died_at: Option<Timestamp>,
    /// The trace id of the request that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// A list of wakes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WakeList {
    /// In the order of their subjects' ids.
    pub items: Vec<Wake>,
    /// The `after` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Which wakes to list.
#[derive(Debug, Clone, Default)]
pub struct WakeQuery {
    /// Only wakes in this state: `queued`, `running` or `dead`.
    pub state: Option<String>,
    /// Only wakes in this lane.
    pub lane: Option<String>,
    /// The `next` of the previous page.
    pub after: Option<String>,
}

impl Client {
    /// A page of wakes. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn wake_list(&self, wanted: &WakeQuery) -> Result<WakeList, ClientError> {
        let parameters = [
            ("state", wanted.state.as_deref()),
            ("lane", wanted.lane.as_deref()),
            ("after", wanted.after.as_deref()),
        ];
        self.get(&query("/v1/wakes", &parameters)).await
    }

    /// Requeues a dead wake. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn wake_requeue(&self, subject: &str) -> Result<Wake, ClientError> {
        let path = format!("/v1/wakes/{}/requeue", segment(subject)?);
        self.post(&path, &NoBody {}).await
    }
}
