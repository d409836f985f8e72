//! Preview requests: exact previews.

use reqwest::Method;

use super::path::segment;
use super::service::service_path;
use super::{Client, ClientError};
use crate::preview_request::PreviewRequest;
use crate::service::ServiceManifest;

impl Client {
    /// Requests an exact preview of a declaration; read it with [`Client::preview_request_get`].
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn preview_request_create(
        &self,
        project: &str,
        name: &str,
        manifest: &ServiceManifest,
    ) -> Result<PreviewRequest, ClientError> {
        let path = format!("{}/preview-requests", service_path(project, name)?);
        let response = self.send(self.request(Method::POST, &path).json(manifest), &path).await?;
        self.body(response, &path).await
    }

    /// A preview request in its current state.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn preview_request_get(
        &self,
        project: &str,
        name: &str,
        id: &str,
    ) -> Result<PreviewRequest, ClientError> {
        let path = format!("{}/preview-requests/{}", service_path(project, name)?, segment(id)?);
        self.get(&path).await
    }
}
