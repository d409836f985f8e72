//! Wakes: the work queue, for operators.

use reqwest::Method;

use super::path::{query, segment};
use super::{Client, ClientError};
use crate::service::NoBody;
use crate::wake::{Wake, WakeList};

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
        let response = self.send(self.request(Method::POST, &path).json(&NoBody {}), &path).await?;
        self.body(response, &path).await
    }
}
