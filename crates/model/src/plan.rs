//! Plans: the sizes on offer, each with its price.

use serde::{Deserialize, Serialize};

use crate::money::Money;
use crate::name::Name;
use crate::spec::Resources;

/// A size and its hourly price. A pod of this plan gets exactly `resources`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Its name.
    pub name: Name,
    /// A one-sentence description.
    pub summary: String,
    /// The resources of each pod.
    pub resources: Resources,
    /// The price of a pod per hour.
    pub hourly: Money,
    /// The price of a GiB of disk per hour, in millionths of the same currency.
    #[serde(default)]
    pub disk_gib_hourly_micros: i64,
    /// The node class that its pods run on; none for any node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Name>,
    /// Whether it is no longer offered. Services that have it keep it.
    #[serde(default)]
    pub retired: bool,
}
