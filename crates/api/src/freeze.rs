//! Freezes, and the reconcile of a service: wire types and client methods.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::freeze::FreezeScope;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, segment};
use crate::cluster::Cluster;
use crate::schema::Sentence;
use crate::service::{NoBody, Service, service_path};

/// The body that freezes a service, a cluster or the platform.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"reason": "investigating an outage"}))]
pub struct FreezeBody {
    /// The reason, as one sentence.
    #[schema(example = "investigating an outage")]
    #[schema(value_type = Sentence)]
    pub reason: String,
}

/// An active freeze: its scope is observed, but nothing in it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Freeze {
    /// The scope of the freeze.
    pub scope: FreezeScope,
    /// The name of the token that froze it.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// When it was frozen.
    pub since: Timestamp,
}

/// The platform as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Platform {
    /// Whether every cluster is frozen, and why.
    #[schema(required = true)]
    pub frozen: Option<Freeze>,
}

impl Client {
    /// Freezes a service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_freeze(
        &self,
        project: &str,
        name_or_id: &str,
        body: &FreezeBody,
    ) -> Result<Service, ClientError> {
        self.post(&format!("{}/freeze", service_path(project, name_or_id)?), body).await
    }

    /// Unfreezes a service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_unfreeze(
        &self,
        project: &str,
        name_or_id: &str,
    ) -> Result<Service, ClientError> {
        let path = format!("{}/unfreeze", service_path(project, name_or_id)?);
        self.post(&path, &NoBody {}).await
    }

    /// Reconciles a service now.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_reconcile(
        &self,
        project: &str,
        name_or_id: &str,
    ) -> Result<Service, ClientError> {
        let path = format!("{}/reconcile", service_path(project, name_or_id)?);
        self.post(&path, &NoBody {}).await
    }

    /// Freezes a cluster. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn cluster_freeze(
        &self,
        cluster: &str,
        body: &FreezeBody,
    ) -> Result<Cluster, ClientError> {
        self.post(&format!("/v1/clusters/{}/freeze", segment(cluster)?), body).await
    }

    /// Unfreezes a cluster. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn cluster_unfreeze(&self, cluster: &str) -> Result<Cluster, ClientError> {
        let path = format!("/v1/clusters/{}/unfreeze", segment(cluster)?);
        self.post(&path, &NoBody {}).await
    }

    /// Shows whether the platform is frozen. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn platform_get(&self) -> Result<Platform, ClientError> {
        self.get("/v1/platform").await
    }

    /// Freezes the platform: no writes to any cluster. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn platform_freeze(&self, body: &FreezeBody) -> Result<Platform, ClientError> {
        self.post("/v1/platform/freeze", body).await
    }

    /// Unfreezes the platform. Clusters that are frozen themselves stay frozen. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn platform_unfreeze(&self) -> Result<Platform, ClientError> {
        self.post("/v1/platform/unfreeze", &NoBody {}).await
    }
}
