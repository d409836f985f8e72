//! Freezes: while one is in force, Trueup observes and does not write.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

/// The scope of a freeze.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum FreezeScope {
    /// Every cluster.
    Platform,
    /// One cluster.
    Cluster,
    /// One service.
    Service,
}

/// A freeze that is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freeze {
    /// Its scope.
    pub scope: FreezeScope,
    /// Who set it.
    pub by: String,
    /// Why.
    pub why: String,
    /// Since when.
    pub since: Timestamp,
}

impl fmt::Display for Freeze {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.scope {
            FreezeScope::Platform => "the platform",
            FreezeScope::Cluster => "the cluster",
            FreezeScope::Service => "the service",
        };
        write!(f, "{what} is frozen since {} by {}: {}", self.since, self.by, self.why)
    }
}
