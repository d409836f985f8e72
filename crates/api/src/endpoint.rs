//! Endpoints: wire types and client methods.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::endpoint::EndpointState;
use trueup_model::id::EndpointId;
use trueup_model::spec::Protocol;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, segment};
use crate::project::project_path;
use crate::schema::PortName;
use crate::service::service_path;

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
    /// What to give to a customer: `play.example.org:30007`. Absent until an operator sets the address of the
    /// cluster's nodes; then the port is open on each of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
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

impl Endpoint {
    /// Where it is reached, in words if the address of the nodes is not configured.
    #[must_use]
    pub fn reached_at(&self) -> String {
        self.address.clone().unwrap_or_else(|| format!("any node:{}", self.node_port))
    }
}

impl Client {
    /// The endpoints of a project's services.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn endpoint_list(&self, project: &str) -> Result<EndpointList, ClientError> {
        self.get(&format!("{}/endpoints", project_path(project)?)).await
    }

    /// Opens an endpoint of a service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn endpoint_put(
        &self,
        project: &str,
        service: &str,
        name: &str,
        body: &EndpointBody,
    ) -> Result<Endpoint, ClientError> {
        let path = format!("{}/endpoints/{}", service_path(project, service)?, segment(name)?);
        Ok(self.put(&path, body).await?.1)
    }

    /// Closes an endpoint of a service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn endpoint_delete(
        &self,
        project: &str,
        service: &str,
        name: &str,
    ) -> Result<(), ClientError> {
        let service = service_path(project, service)?;
        self.remove(&format!("{service}/endpoints/{}", segment(name)?)).await
    }
}
