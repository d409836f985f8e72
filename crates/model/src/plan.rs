//! Plans: sizes that are sold, each with its price.

use serde::{Deserialize, Serialize};

use crate::money::Money;
use crate::name::Name;
use crate::spec::Resources;

/// A size and what an hour of it costs. A pod of this plan gets `resources`, no more and no less.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What it is called.
    pub name: Name,
    /// One sentence for people who choose.
    pub summary: String,
    /// What each pod may use.
    pub resources: Resources,
    /// The price of a pod for an hour.
    pub hourly: Money,
    /// The price of a GiB of disk for an hour, in millionths of the same currency.
    #[serde(default)]
    pub disk_gib_hourly_micros: i64,
    /// The class of nodes that its pods run on; any node when it says none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Name>,
    /// Whether it is no longer sold. Services that have it keep it.
    #[serde(default)]
    pub retired: bool,
}
