//! Volumes: wire types and client methods.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::client::{Client, ClientError};
use crate::project::project_path;

/// A volume: a claim of a service, as last observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// The name of the claim.
    pub name: String,
    /// The service that it belongs to.
    pub service: String,
    /// Its namespace.
    pub namespace: String,
    /// The requested size in GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_gib: Option<u32>,
    /// The mount path in the containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether it is bound to a disk; absent until that was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<bool>,
    /// Its uid, once it was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// When it was last observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Timestamp>,
}

/// A list of volumes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeList {
    /// In service and claim order.
    pub items: Vec<Volume>,
}

impl Client {
    /// The volumes of a project's services.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn volume_list(&self, project: &str) -> Result<VolumeList, ClientError> {
        self.get(&format!("{}/volumes", project_path(project)?)).await
    }
}
