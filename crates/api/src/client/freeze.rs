//! Freezes, and looking afresh: what people do when they do not trust what they see.

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
    /// Stops every act on a service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_freeze(
        &self,
        project: &str,
        name_or_id: &str,
        body: &FreezeBody,
    ) -> Result<Service, ClientError> {
        self.turn(&format!("{}/freeze", service_path(project, name_or_id)?), body).await
    }

    /// Lets a service be worked on again.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_unfreeze(
        &self,
        project: &str,
        name_or_id: &str,
    ) -> Result<Service, ClientError> {
        let path = format!("{}/unfreeze", service_path(project, name_or_id)?);
        self.turn(&path, &NoBody {}).await
    }

    /// Asks for a service to be looked at afresh.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_reconcile(
        &self,
        project: &str,
        name_or_id: &str,
    ) -> Result<Service, ClientError> {
        let path = format!("{}/reconcile", service_path(project, name_or_id)?);
        self.turn(&path, &NoBody {}).await
    }

    /// Stops every act on a cluster. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn cluster_freeze(
        &self,
        cluster: &str,
        body: &FreezeBody,
    ) -> Result<Cluster, ClientError> {
        self.turn(&format!("/v1/clusters/{}/freeze", segment(cluster)?), body).await
    }

    /// Lets a cluster be worked on again. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn cluster_unfreeze(&self, cluster: &str) -> Result<Cluster, ClientError> {
        let path = format!("/v1/clusters/{}/unfreeze", segment(cluster)?);
        self.turn(&path, &NoBody {}).await
    }

    /// Whether every cluster is frozen. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn platform_get(&self) -> Result<Platform, ClientError> {
        self.get("/v1/platform").await
    }

    /// Stops every act on every cluster. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn platform_freeze(&self, body: &FreezeBody) -> Result<Platform, ClientError> {
        self.turn("/v1/platform/freeze", body).await
    }

    /// Lets every cluster be worked on again that is not frozen by itself. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn platform_unfreeze(&self) -> Result<Platform, ClientError> {
        self.turn("/v1/platform/unfreeze", &NoBody {}).await
    }

    async fn turn<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, ClientError> {
        let response = self.send(self.request(Method::POST, path).json(body), path).await?;
        self.body(response, path).await
    }
}
