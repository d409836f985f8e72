//! What an id refers to: wire types and the client method.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use trueup_model::id::ServiceId;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, segment};

/// What an id can refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum LookupKind {
    /// `prj_…`
    Project,
    /// `svc_…`, also of a deleted service.
    Service,
    /// `rel_…`
    Release,
    /// `cls_…`
    Cluster,
    /// `evt_…`
    Event,
    /// `ept_…`
    Endpoint,
    /// `dom_…`
    Domain,
    /// `dvg_…`
    Divergence,
    /// `cft_…`
    Conflict,
}

/// What an id refers to, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lookup {
    /// The id.
    #[schema(example = "svc_01h455vb4pex5vsknk084sn02q")]
    pub id: String,
    /// What it is.
    pub kind: LookupKind,
    /// Its name: of an event its type, of a release its generation, of a divergence or conflict the
    /// field.
    pub name: String,
    /// The name of its project, if it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The name of its service, if it belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The id of its service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ServiceId>)]
    pub service_id: Option<String>,
    /// The path of the operation that shows it, or the list with it.
    pub path: String,
}

impl Client {
    /// What an id refers to.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn lookup_get(&self, id: &str) -> Result<Lookup, ClientError> {
        self.get(&format!("/v1/lookup/{}", segment(id)?)).await
    }
}
