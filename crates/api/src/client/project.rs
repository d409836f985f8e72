//! Projects.

use reqwest::{Method, RequestBuilder};

use super::path::segment;
use super::{Client, ClientError, Terms, is_change};
use crate::project::{Project, ProjectList, ProjectManifest};
use crate::service::ForceDeleteBody;

/// The result of a change of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedProject {
    /// The project as it is now.
    pub project: Project,
    /// Whether this request changed anything.
    pub changed: bool,
}

impl Client {
    /// Every project.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn project_list(&self) -> Result<ProjectList, ClientError> {
        self.get("/v1/projects").await
    }

    /// Declares a project.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn project_put(
        &self,
        name: &str,
        manifest: &ProjectManifest,
    ) -> Result<AcceptedProject, ClientError> {
        let path = project_path(name)?;
        let (status, project) = self.put(&path, manifest).await?;
        Ok(AcceptedProject { project, changed: is_change(status) })
    }

    /// One project, by name or id.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn project_get(&self, name_or_id: &str) -> Result<Project, ClientError> {
        self.get(&project_path(name_or_id)?).await
    }

    /// Deletes a project with every service in it.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn project_delete(&self, name_or_id: &str) -> Result<AcceptedProject, ClientError> {
        let path = project_path(name_or_id)?;
        self.accept(self.request(Method::DELETE, &path), &path).await
    }

    /// Force-completes the stuck deletion of a project.
    ///
    /// Of the terms only the key is used: the body names the generation.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn project_force_delete(
        &self,
        name_or_id: &str,
        body: &ForceDeleteBody,
        terms: &Terms,
    ) -> Result<AcceptedProject, ClientError> {
        let path = format!("{}/force-delete", project_path(name_or_id)?);
        let mut request = self.request(Method::POST, &path).json(body);
        if let Some(key) = &terms.key {
            request = request.header("Idempotency-Key", key);
        }
        self.accept(request, &path).await
    }

    async fn accept(
        &self,
        request: RequestBuilder,
        path: &str,
    ) -> Result<AcceptedProject, ClientError> {
        let response = self.send(request, path).await?;
        let changed = is_change(response.status());
        Ok(AcceptedProject { project: self.body(response, path).await?, changed })
    }
}

fn project_path(name_or_id: &str) -> Result<String, ClientError> {
    Ok(format!("/v1/projects/{}", segment(name_or_id)?))
}
