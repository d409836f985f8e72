//! Volumes and single clusters: read only.

use super::path::segment;
use super::{Client, ClientError};
use crate::cluster::Cluster;
use crate::volume::VolumeList;

impl Client {
    /// The volumes of a project's services.
    ///
    /// # Errors
    /// See [`ClientError`]; so for every operation.
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
}
