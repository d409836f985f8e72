//! Endpoints of a project's services.

use super::path::segment;
use super::service::service_path;
use super::{Client, ClientError};
use crate::endpoint::{Endpoint, EndpointBody, EndpointList};

impl Client {
    /// The endpoints of a project's services.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn endpoint_list(&self, project: &str) -> Result<EndpointList, ClientError> {
        self.get(&format!("/v1/projects/{}/endpoints", segment(project)?)).await
    }

    /// Opens an endpoint of a service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn endpoint_put(
        &self,
        project: &str,
        service: &str,
        name: &str,
        body: &EndpointBody,
    ) -> Result<Endpoint, ClientError> {
        let path = format!("{}/endpoints/{}", service_path(project, service)?, segment(name)?);
        Ok(self.put(&path, body).await?.1)
    }

    /// Closes an endpoint of a service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn endpoint_delete(
        &self,
        project: &str,
        service: &str,
        name: &str,
    ) -> Result<(), ClientError> {
        let service = service_path(project, service)?;
        self.remove(&format!("{service}/endpoints/{}", segment(name)?)).await
    }
}
