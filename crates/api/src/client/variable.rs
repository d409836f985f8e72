//! Variables of a project, and of one service.

use super::path::segment;
use super::service::service_path;
use super::{Client, ClientError};
use crate::variable::{Variable, VariableBody, VariableList};

impl Client {
    /// The variables that all services of a project share.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn variable_list(&self, project: &str) -> Result<VariableList, ClientError> {
        self.get(&format!("/v1/projects/{}/variables", segment(project)?)).await
    }

    /// Sets a variable for all services of a project.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn variable_put(
        &self,
        project: &str,
        name: &str,
        body: &VariableBody,
    ) -> Result<Variable, ClientError> {
        let path = format!("/v1/projects/{}/variables/{}", segment(project)?, segment(name)?);
        Ok(self.put(&path, body).await?.1)
    }

    /// Deletes a variable of a project.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn variable_delete(&self, project: &str, name: &str) -> Result<(), ClientError> {
        self.remove(&format!("/v1/projects/{}/variables/{}", segment(project)?, segment(name)?))
            .await
    }

    /// The variables of one service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_variable_list(
        &self,
        project: &str,
        service: &str,
    ) -> Result<VariableList, ClientError> {
        self.get(&format!("{}/variables", service_path(project, service)?)).await
    }

    /// Sets a variable for one service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_variable_put(
        &self,
        project: &str,
        service: &str,
        name: &str,
        body: &VariableBody,
    ) -> Result<Variable, ClientError> {
        let path = format!("{}/variables/{}", service_path(project, service)?, segment(name)?);
        Ok(self.put(&path, body).await?.1)
    }

    /// Deletes a variable of a service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_variable_delete(
        &self,
        project: &str,
        service: &str,
        name: &str,
    ) -> Result<(), ClientError> {
        let service = service_path(project, service)?;
        self.remove(&format!("{service}/variables/{}", segment(name)?)).await
    }
}
