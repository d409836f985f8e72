//! Clusters: wire types and client methods.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::ClusterId;
use trueup_model::cluster::Reachability;
use trueup_model::usage::{Meter, Unsold};
use utoipa::ToSchema;

use crate::client::{Client, ClientError, query, segment};
use crate::freeze::Freeze;
use crate::plan::Amount;
use crate::schema::{ObjectName, PublicAddress};

/// A cluster as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cluster {
    /// `cls_…`
    #[schema(value_type = ClusterId)]
    pub id: String,
    /// The cluster's name.
    pub name: String,
    /// Whether the cluster answers.
    pub reachability: Reachability,
    /// When the cluster was last observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_at: Option<Timestamp>,
    /// What the cluster is doing, such as the progress of building it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// When it was registered.
    pub created_at: Timestamp,
    /// The freeze of this cluster, if it is frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Freeze>,
    /// The number of the org's projects in it. Only in the response for a single cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projects: Option<i64>,
    /// The number of the org's services in it. Only in the response for a single cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<i64>,
}

/// How a cluster is reached from outside: by host names, and by the ports of its nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "ingress_class": "nginx", "from_namespace": "ingress-nginx", "issuer": "letsencrypt" }))]
pub struct ClusterRouting {
    /// The Gateway of the HTTPRoutes; if omitted, hosts become Ingress objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<ClusterGateway>,
    /// The ingress class; if omitted, the cluster's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ObjectName>)]
    pub ingress_class: Option<String>,
    /// The only namespace that the network policy admits; if omitted, the port is open to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ObjectName>)]
    pub from_namespace: Option<String>,
    /// A ClusterIssuer of cert-manager; if omitted, no certificates are issued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ObjectName>)]
    pub issuer: Option<String>,
    /// The host name or IP address at which the nodes are reached from outside: what endpoints show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<PublicAddress>)]
    pub address: Option<String>,
}

/// A reference to a Gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterGateway {
    /// The Gateway's namespace.
    #[schema(value_type = ObjectName)]
    pub namespace: String,
    /// The Gateway's name.
    #[schema(value_type = ObjectName)]
    pub name: String,
}

/// A list of clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterList {
    /// In name order.
    pub items: Vec<Cluster>,
}

/// Where the capacity of a cluster went, by day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapacityReport {
    /// Whether on each of these days everything that was used fits into what existed.
    pub holds: bool,
    /// The newest day first.
    pub items: Vec<CapacityDay>,
}

/// Where the capacity of a cluster went on one day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapacityDay {
    /// The day in UTC.
    #[schema(value_type = String, format = Date, example = "2030-01-31")]
    pub day: String,
    /// How far it is known.
    pub known_until: Timestamp,
    /// The parts of each meter that nodes have a capacity of.
    pub meters: Vec<CapacityAccount>,
    /// What the unsold part of it would have cost at list prices.
    pub costs: Vec<CapacityCost>,
}

/// The parts of the capacity of all nodes: they add up to it, unless something is unexplained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapacityAccount {
    /// The meter.
    pub meter: Meter,
    /// The unit of all quantities.
    #[schema(example = "millicore-second")]
    pub unit: String,
    /// What all nodes had.
    pub capacity: String,
    /// What was delivered to services.
    pub delivered: String,
    /// What Trueup's services did not use.
    pub idle: String,
    /// What had no owner.
    pub orphan: String,
    /// What may have been used, unobserved.
    pub gap: String,
    /// What was on lost nodes.
    pub under_delivered: String,
    /// What was used beyond the capacity. It must be zero.
    pub unexplained: String,
}

/// What unsold capacity would have cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapacityCost {
    /// Why it was not sold.
    pub why: Unsold,
    /// The cost at list prices.
    pub cost: Amount,
}

impl Client {
    /// Where the capacity of a cluster went in the last days. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn cluster_capacity(
        &self,
        name_or_id: &str,
        days: Option<u32>,
    ) -> Result<CapacityReport, ClientError> {
        let path = format!("/v1/clusters/{}/capacity", segment(name_or_id)?);
        let days = days.map(|days| days.to_string());
        self.get(&query(&path, &[("days", days.as_deref())])).await
    }

    /// Every cluster.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn cluster_list(&self) -> Result<ClusterList, ClientError> {
        self.get("/v1/clusters").await
    }

    /// One cluster, by name or id.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn cluster_get(&self, name_or_id: &str) -> Result<Cluster, ClientError> {
        self.get(&format!("/v1/clusters/{}", segment(name_or_id)?)).await
    }

    /// How a cluster routes host names. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn cluster_routing_get(
        &self,
        name_or_id: &str,
    ) -> Result<ClusterRouting, ClientError> {
        self.get(&format!("/v1/clusters/{}/routing", segment(name_or_id)?)).await
    }

    /// Sets how a cluster routes host names. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn cluster_routing_put(
        &self,
        name_or_id: &str,
        body: &ClusterRouting,
    ) -> Result<ClusterRouting, ClientError> {
        Ok(self.put(&format!("/v1/clusters/{}/routing", segment(name_or_id)?), body).await?.1)
    }
}
