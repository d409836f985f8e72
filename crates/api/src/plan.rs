//! Plans on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body that declares a plan, and its document in a manifest file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "summary": "A quarter of a core and 256 MiB.", "cpu_millis": 250, "memory_mib": 256,
    "hourly_micros": 6000, "currency": "EUR"
}))]
pub struct PlanManifest {
    /// `Plan`; may be left out in an API body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The plan's name; may be left out in an API body, where the path says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// One sentence for people who choose.
    pub summary: String,
    /// Thousandths of a core for each pod.
    #[schema(example = 250)]
    pub cpu_millis: u32,
    /// Mebibytes of memory for each pod.
    #[schema(example = 256)]
    pub memory_mib: u32,
    /// Whole GPUs for each pod.
    #[serde(default)]
    pub gpus: u32,
    /// Millionths of the currency for an hour of one pod.
    #[schema(example = 6000)]
    pub hourly_micros: i64,
    /// Millionths of the currency for an hour of one GiB of disk.
    #[serde(default)]
    pub disk_gib_hourly_micros: i64,
    /// Three capital letters.
    #[schema(example = "EUR")]
    pub currency: String,
    /// The class of nodes that its pods run on: those with the label `trueup.dev/node-class`. Any node
    /// when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// Whether it is no longer sold. Services that have it keep it.
    #[serde(default)]
    pub retired: bool,
}

/// A plan as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// What it is called.
    pub name: String,
    /// One sentence for people who choose.
    pub summary: String,
    /// Thousandths of a core for each pod.
    pub cpu_millis: u32,
    /// Mebibytes of memory for each pod.
    pub memory_mib: u32,
    /// Whole GPUs for each pod.
    pub gpus: u32,
    /// The class of nodes that its pods run on; any node when there is none.
    pub nodes: Option<String>,
    /// The price of an hour of one pod.
    pub hourly: Amount,
    /// The price of a month of one pod.
    pub monthly: Amount,
    /// The price of an hour of one GiB of disk.
    pub disk_gib_hourly: Amount,
    /// Whether it is no longer sold.
    pub retired: bool,
}

/// An amount of money, exact and as people read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Amount {
    /// Millionths of the currency.
    #[schema(example = 4_380_000)]
    pub micros: i64,
    /// Three capital letters.
    #[schema(example = "EUR")]
    pub currency: String,
    /// The same as a text.
    #[schema(example = "4.38 EUR")]
    pub text: String,
}

/// A list of plans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanList {
    /// Those that are sold first, each part by price.
    pub items: Vec<Plan>,
}
