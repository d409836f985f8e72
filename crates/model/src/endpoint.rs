//! An endpoint: a node port that routes to one port of a service, for protocols other than HTTP.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::id::{EndpointId, ServiceId};
use crate::name::Name;
use crate::spec::Protocol;

/// The part of an endpoint that an order carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenPort {
    /// The endpoint.
    pub id: EndpointId,
    /// The name of the port in the spec.
    pub port: String,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The port of the cluster's nodes.
    pub node_port: u16,
}

/// The state of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum EndpointState {
    /// Accepted; not observed in the cluster yet.
    Opening,
    /// Observed in the cluster.
    Open,
    /// Closing was requested; the port is reserved until observed to be gone from the cluster.
    Closing,
}

/// An endpoint with its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its id.
    pub id: EndpointId,
    /// Its name, unique in the service.
    pub name: Name,
    /// The service it routes to.
    pub service: ServiceId,
    /// The service's name.
    pub service_name: String,
    /// The cluster's name.
    pub cluster_name: String,
    /// The name of the service's port.
    pub port: String,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The port of the cluster's nodes.
    pub node_port: u16,
    /// The host name or IP address of the nodes, as the operator configured it.
    pub host: Option<String>,
    /// Its state.
    pub state: EndpointState,
    /// Who opened it.
    pub made_by: String,
    /// When it was opened.
    pub created_at: Timestamp,
}
