//! Freezes: switches that stop every act on something without stopping anybody from looking.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How much a freeze covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// How much it covers.
    pub scope: FreezeScope,
    /// Who froze it.
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
