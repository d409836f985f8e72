//! Plans: the sizes on offer, each with its price.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::PriceVersionId;
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

/// The list price of a plan from one moment to the next one.
///
/// Prices of pods and of disks change together, so one version names both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanPrice {
    /// The price version of a pod. That of a disk begins at the same moment.
    pub version: PriceVersionId,
    /// The price of a pod per hour.
    pub hourly: Money,
    /// The price of a GiB of disk per hour, in millionths of the same currency.
    pub disk_gib_hourly_micros: i64,
    /// The first moment it holds.
    pub from: Timestamp,
    /// The first moment it no longer holds; none while it has no end.
    pub until: Option<Timestamp>,
    /// When it was published. Before `from` if it was published for later.
    pub created_at: Timestamp,
    /// Who published it.
    pub created_by: String,
}

impl PlanPrice {
    /// Whether these are the prices of a plan.
    #[must_use]
    pub fn is_of(&self, plan: &Plan) -> bool {
        (self.hourly, self.disk_gib_hourly_micros) == (plan.hourly, plan.disk_gib_hourly_micros)
    }
}
