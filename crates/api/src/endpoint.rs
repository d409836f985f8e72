//! Endpoints on the wire.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body that opens an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "port": "http" }))]
pub struct EndpointBody {
    /// A port of the service, by name.
    pub port: String,
    /// `TCP` or `UDP`; must be that port's, and may be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
}

/// An endpoint as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Endpoint {
    /// `ept_…`
    pub id: String,
    /// What people call it.
    pub name: String,
    /// The service that it leads to.
    pub service: String,
    /// The cluster whose nodes listen.
    pub cluster: String,
    /// The port of the service, by name.
    pub port: String,
    /// `TCP` or `UDP`.
    pub protocol: String,
    /// The port of the nodes.
    pub node_port: u16,
    /// `opening`, `open` or `closing`, as far as the cluster was seen.
    pub state: String,
    /// Who asked for it.
    pub made_by: String,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// A list of endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndpointList {
    /// In service and name order.
    pub items: Vec<Endpoint>,
}
