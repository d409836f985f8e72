//! Exact previews: asking for one, looking at it, and insisting on it.

use reqwest::Method;

use super::path::segment;
use super::service::service_path;
use super::{Client, ClientError};
use crate::plan_request::PlanRequest;
use crate::service::ServiceManifest;

impl Client {
    /// Asks what a declaration of a service would really do; the answer comes with
    /// [`Client::plan_request_get`].
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn plan_request_create(
        &self,
        project: &str,
        name: &str,
        manifest: &ServiceManifest,
    ) -> Result<PlanRequest, ClientError> {
        let path = format!("{}/plan-requests", service_path(project, name)?);
        let response = self.send(self.request(Method::POST, &path).json(manifest), &path).await?;
        self.body(response, &path).await
    }

    /// A plan request as it stands now.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn plan_request_get(
        &self,
        project: &str,
        name: &str,
        id: &str,
    ) -> Result<PlanRequest, ClientError> {
        let path = format!("{}/plan-requests/{}", service_path(project, name)?, segment(id)?);
        self.get(&path).await
    }
}
