//! Quotas: wire types and client methods.

use reqwest::Method;
use serde::{Deserialize, Serialize};
use trueup_model::quota as model;
use utoipa::ToSchema;

use crate::client::{Client, ClientError};
use crate::schema::ResourceAmount;

/// An amount of each resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "services": 200, "cpu_millis": 100_000, "memory_mib": 262_144, "storage_gib": 2000, "gpus": 8,
    "projects": 100, "endpoints": 100
}))]
pub struct Amounts {
    /// Services that are not being deleted.
    #[schema(example = 200)]
    #[schema(value_type = ResourceAmount)]
    pub services: i64,
    /// Thousandths of a core over all pods.
    #[schema(example = 100_000)]
    #[schema(value_type = ResourceAmount)]
    pub cpu_millis: i64,
    /// Mebibytes of memory over all pods.
    #[schema(example = 262_144)]
    #[schema(value_type = ResourceAmount)]
    pub memory_mib: i64,
    /// Gibibytes of disk.
    #[schema(example = 2000)]
    #[schema(value_type = ResourceAmount)]
    pub storage_gib: i64,
    /// Whole GPUs.
    #[schema(example = 8)]
    #[schema(value_type = ResourceAmount)]
    pub gpus: i64,
    /// Projects whose absence is not verified. If left out, 100.
    #[serde(default = "default_projects")]
    #[schema(example = 100, value_type = ResourceAmount)]
    pub projects: i64,
    /// Endpoints over all projects. If left out, 100.
    #[serde(default = "default_endpoints")]
    #[schema(example = 100, value_type = ResourceAmount)]
    pub endpoints: i64,
}

const fn default_projects() -> i64 {
    model::Amounts::DEFAULT_PROJECTS
}

const fn default_endpoints() -> i64 {
    model::Amounts::DEFAULT_ENDPOINTS
}

/// The quota of an org: limit, usage and what is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Quota {
    /// The limit.
    pub limit: model::Amounts,
    /// What is in use. A deleted service counts until its absence is verified.
    pub used: model::Amounts,
    /// What is left.
    pub left: model::Amounts,
    /// Where the limit comes from: every org's default, an operator, or the subscription.
    #[serde(default)]
    pub source: model::LimitSource,
}

impl Client {
    /// The quota of the org.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn quota_get(&self) -> Result<Quota, ClientError> {
        self.get("/v1/quota").await
    }

    /// Sets the quota of an org. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn quota_put(&self, limit: &Amounts) -> Result<Quota, ClientError> {
        let (_, quota) = self.put("/v1/quota", limit).await?;
        Ok(quota)
    }

    /// The quota of a project.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn project_quota_get(&self, project: &str) -> Result<Quota, ClientError> {
        self.get(&format!("/v1/projects/{project}/quota")).await
    }

    /// Sets the quota of a project.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn project_quota_put(
        &self,
        project: &str,
        limit: &Amounts,
    ) -> Result<Quota, ClientError> {
        let (_, quota) = self.put(&format!("/v1/projects/{project}/quota"), limit).await?;
        Ok(quota)
    }

    /// Removes the quota of a project.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn project_quota_delete(&self, project: &str) -> Result<Quota, ClientError> {
        let path = format!("/v1/projects/{project}/quota");
        let response = self.send(self.request(Method::DELETE, &path), &path).await?;
        self.body(response, &path).await
    }
}
