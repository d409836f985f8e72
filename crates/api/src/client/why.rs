//! Explanations of a service, and the check of projections.

use super::path::query;
use super::service::service_path;
use super::{Client, ClientError};
use crate::why::{ProjectionCheck, Why};

impl Client {
    /// Explains the state of a service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_why(&self, project: &str, name_or_id: &str) -> Result<Why, ClientError> {
        self.get(&format!("{}/why", service_path(project, name_or_id)?)).await
    }

    /// Recomputes a page of the org's statuses and compares them with the stored ones.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn projection_check(
        &self,
        after: Option<&str>,
    ) -> Result<ProjectionCheck, ClientError> {
        self.get(&query("/v1/projections/check", &[("after", after), ("limit", Some("1000"))]))
            .await
    }
}
