//! Freezes, and the reconcile of a service.

use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::path::segment;
use super::service::service_path;
use super::{Client, ClientError};
use crate::cluster::Cluster;
use crate::freeze::{FreezeBody, Platform};
use crate::service::{NoBody, Service};

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

    async fn post<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, ClientError> {
        let response = self.send(self.request(Method::POST, path).json(body), path).await?;
        self.body(response, path).await
    }
}
