//! Clusters on the wire.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::freeze::Freeze;

/// A cluster as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cluster {
    /// `cls_…`
    pub id: String,
    /// What people call it.
    pub name: String,
    /// `reachable` or `unreachable`.
    pub reachability: String,
    /// When it was last heard of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub heard_at: Option<Timestamp>,
    /// What is going on with it, such as the progress of building it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// When it was registered.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Whether it is frozen by itself, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Freeze>,
    /// How many projects of the org are in it. Only in the answer for one cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projects: Option<i64>,
    /// How many living services of the org are in it. Only in the answer for one cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<i64>,
}

/// How the world's host names come into a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "ingress_class": "nginx", "from_namespace": "ingress-nginx", "issuer": "letsencrypt" }))]
pub struct ClusterRouting {
    /// The gateway that routes hang from; left out, hosts are Ingress objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<ClusterGateway>,
    /// Which ingress controller takes them; left out, the cluster's own choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_class: Option<String>,
    /// The namespace that connections come from; left out, the walls are open for the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_namespace: Option<String>,
    /// A ClusterIssuer of cert-manager; left out, there are no certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
}

/// Which gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterGateway {
    /// Where it stands.
    pub namespace: String,
    /// What it is called.
    pub name: String,
}

/// A list of clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterList {
    /// In name order.
    pub items: Vec<Cluster>,
}
