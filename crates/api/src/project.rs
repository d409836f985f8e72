//! Projects: wire types and client methods.

use reqwest::{Method, RequestBuilder};
use serde::{Deserialize, Serialize};
use trueup_model::ProjectId;
use trueup_model::drift::DriftPolicy;
use trueup_model::name::Name;
use trueup_model::receipt::Receipt;
use trueup_model::service::DesiredState;
use trueup_model::status::Reconciliation;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, is_change, segment};
use crate::drift::DriftManifest;
use crate::service::ServiceStatus;
use crate::service::{ForceDeleteBody, Terms};

/// The body that declares a project, and its document in a manifest file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"kind": "Project", "name": "shop"}))]
pub struct ProjectManifest {
    /// `Project`; may be omitted in an API body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The name; may be omitted in an API body, where the path names the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Name>)]
    pub name: Option<String>,
    /// What happens when other writers change objects of its services that have no policy of their
    /// own; if omitted, the project has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftManifest>,
}

/// A project as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Project {
    /// `prj_…`
    #[schema(value_type = ProjectId)]
    pub id: String,
    /// The project's name.
    pub name: String,
    /// The cluster that its services run in.
    pub cluster: String,
    /// Its namespace in that cluster.
    pub namespace: String,
    /// The desired state: a project is active or deleted.
    pub desired: DesiredState,
    /// Raised by every accepted change.
    pub generation: i64,
    /// The drift policy of its services, where they have none of their own; absent if there is none.
    #[serde(default, skip_serializing_if = "DriftPolicy::is_empty")]
    pub drift: DriftPolicy,
    /// Whether the observed state carries the newest generation.
    pub reconciliation: Reconciliation,
    /// What was observed of its namespace and policies.
    pub status: ServiceStatus,
    /// The evidence that nothing of the project is left, once it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
}

/// A list of projects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectList {
    /// In name order.
    pub items: Vec<Project>,
}

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

pub(crate) fn project_path(name_or_id: &str) -> Result<String, ClientError> {
    Ok(format!("/v1/projects/{}", segment(name_or_id)?))
}
