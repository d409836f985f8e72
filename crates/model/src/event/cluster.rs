//! Facts about clusters and the whole platform.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cluster::Routing;

/// A cluster or the whole platform was frozen: it is observed and not written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlatformFrozen {
    /// The cluster; none for the whole platform.
    pub cluster: Option<String>,
    /// Why.
    pub reason: String,
    /// Who requested it.
    pub principal: String,
}

/// A cluster or the whole platform was unfrozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlatformUnfrozen {
    /// The cluster; none for the whole platform.
    pub cluster: Option<String>,
    /// Who requested it.
    pub principal: String,
}

/// The routing of a cluster was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RoutingChanged {
    /// Which cluster.
    pub cluster: String,
    /// The new routing.
    pub routing: Routing,
    /// Who requested it.
    pub principal: String,
}

/// An operator declared that another cluster replaces this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterReplaced {
    /// Its name in Trueup.
    pub cluster: String,
    /// The identity of the old cluster.
    pub before: String,
    /// The identity of the new cluster.
    pub now: String,
}

/// Nothing was heard of a cluster for too long: no watch event, and no answer to any call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterUnreachable {
    /// The last error, or that there was none.
    pub why: String,
    /// The last time that something was heard of it.
    pub since: Timestamp,
}

/// An unreachable cluster answers again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterReachable {
    /// For how many seconds nothing was heard of it.
    pub after_s: i64,
}
