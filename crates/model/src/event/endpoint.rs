//! Facts about endpoints.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A node port was opened for a service, or routed to another of its ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndpointOpened {
    /// Which endpoint.
    pub name: String,
    /// The port of the service.
    pub port: String,
    /// The port of the nodes.
    pub node_port: u16,
    /// Who requested it.
    pub principal: String,
}

/// The closing of an endpoint was requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndpointClosed {
    /// Which endpoint.
    pub name: String,
    /// The port of the nodes.
    pub node_port: u16,
    /// Who requested it.
    pub principal: String,
}
