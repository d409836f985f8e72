//! An endpoint: a port of the cluster that leads to one port of a service, for what a web address
//! cannot carry, such as games.

use jiff::Timestamp;

use crate::id::{EndpointId, ServiceId};
use crate::name::Name;
use crate::spec::Protocol;

/// The part of an endpoint that an order carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenPort {
    /// Which endpoint.
    pub id: EndpointId,
    /// Which port of the spec, by name.
    pub port: String,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The port of the cluster's nodes.
    pub node_port: u16,
}

/// Where an endpoint is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointState {
    /// Promised; the cluster was not seen to have it yet.
    Opening,
    /// The cluster was seen to have it.
    Open,
    /// Its end was asked for; the port is kept until the cluster was seen without it.
    Closing,
}

impl EndpointState {
    /// The text on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Open => "open",
            Self::Closing => "closing",
        }
    }
}

/// An endpoint as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its id.
    pub id: EndpointId,
    /// What people call it, unique among the service's.
    pub name: Name,
    /// Whose it is.
    pub service: ServiceId,
    /// What that is called.
    pub service_name: String,
    /// What its cluster is called.
    pub cluster_name: String,
    /// Which port of the service, by name.
    pub port: String,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The port of the cluster's nodes.
    pub node_port: u16,
    /// Where it is in its life.
    pub state: EndpointState,
    /// Who asked for it.
    pub made_by: String,
    /// When.
    pub created_at: Timestamp,
}
