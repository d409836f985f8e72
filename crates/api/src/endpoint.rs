//! Endpoints on the wire.

use crate::schema::PortName;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::endpoint::EndpointState;
use trueup_model::id::EndpointId;
use trueup_model::spec::Protocol;
use utoipa::ToSchema;

/// The body that opens an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "port": "http" }))]
pub struct EndpointBody {
    /// A port of the service, by name.
    #[schema(value_type = PortName)]
    pub port: String,
    /// Must be the port's protocol; may be omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Protocol>)]
    pub protocol: Option<String>,
}

/// An endpoint as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Endpoint {
    /// `ept_…`
    #[schema(value_type = EndpointId)]
    pub id: String,
    /// The endpoint's name.
    pub name: String,
    /// The service that the port is routed to.
    pub service: String,
    /// The cluster whose nodes listen.
    pub cluster: String,
    /// The port of the service, by name.
    pub port: String,
    /// The port's protocol.
    pub protocol: Protocol,
    /// The port on the nodes.
    pub node_port: u16,
    /// How far the endpoint is, as far as the cluster was observed.
    pub state: EndpointState,
    /// The name of the token that opened it.
    pub made_by: String,
    /// When it was opened.
    pub created_at: Timestamp,
}

/// A list of endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndpointList {
    /// In service and name order.
    pub items: Vec<Endpoint>,
}
