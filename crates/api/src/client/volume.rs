//! Volumes; and single clusters with their routing.

use super::path::segment;
use super::{Client, ClientError};
use crate::cluster::{Cluster, ClusterRouting};
use crate::volume::VolumeList;

impl Client {
    /// The volumes of a project's services.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn volume_list(&self, project: &str) -> Result<VolumeList, ClientError> {
        self.get(&format!("/v1/projects/{}/volumes", segment(project)?)).await
    }

    /// One cluster, by name or id.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn cluster_get(&self, name_or_id: &str) -> Result<Cluster, ClientError> {
        self.get(&format!("/v1/clusters/{}", segment(name_or_id)?)).await
    }

    /// How a cluster routes host names. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn cluster_routing_get(
        &self,
        name_or_id: &str,
    ) -> Result<ClusterRouting, ClientError> {
        self.get(&format!("/v1/clusters/{}/routing", segment(name_or_id)?)).await
    }

    /// Sets how a cluster routes host names. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn cluster_routing_put(
        &self,
        name_or_id: &str,
        body: &ClusterRouting,
    ) -> Result<ClusterRouting, ClientError> {
        Ok(self.put(&format!("/v1/clusters/{}/routing", segment(name_or_id)?), body).await?.1)
    }
}
