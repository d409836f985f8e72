//! Secrets of a project, and of one service.

use super::path::segment;
use super::service::service_path;
use super::{Client, ClientError};
use crate::secret::{Secret, SecretBody, SecretList};

impl Client {
    /// The secrets that all services of a project share.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn secret_list(&self, project: &str) -> Result<SecretList, ClientError> {
        self.get(&format!("/v1/projects/{}/secrets", segment(project)?)).await
    }

    /// Sets a secret for all services of a project.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn secret_put(
        &self,
        project: &str,
        name: &str,
        body: &SecretBody,
    ) -> Result<Secret, ClientError> {
        let path = format!("/v1/projects/{}/secrets/{}", segment(project)?, segment(name)?);
        Ok(self.put(&path, body).await?.1)
    }

    /// Deletes a secret of a project.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn secret_delete(&self, project: &str, name: &str) -> Result<(), ClientError> {
        self.remove(&format!("/v1/projects/{}/secrets/{}", segment(project)?, segment(name)?)).await
    }

    /// The secrets of one service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_secret_list(
        &self,
        project: &str,
        service: &str,
    ) -> Result<SecretList, ClientError> {
        self.get(&format!("{}/secrets", service_path(project, service)?)).await
    }

    /// Sets a secret for one service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_secret_put(
        &self,
        project: &str,
        service: &str,
        name: &str,
        body: &SecretBody,
    ) -> Result<Secret, ClientError> {
        let path = format!("{}/secrets/{}", service_path(project, service)?, segment(name)?);
        Ok(self.put(&path, body).await?.1)
    }

    /// Deletes a secret of a service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_secret_delete(
        &self,
        project: &str,
        service: &str,
        name: &str,
    ) -> Result<(), ClientError> {
        let service = service_path(project, service)?;
        self.remove(&format!("{service}/secrets/{}", segment(name)?)).await
    }
}
