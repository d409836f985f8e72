//! Costs: wire types and client methods.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::id::ServiceId;
use trueup_model::money::Currency;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, query};
use crate::plan::Amount;

/// A billing period: a calendar month in the org's time zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BillingPeriod {
    /// The month.
    #[schema(example = "2030-01")]
    pub name: String,
    /// Its first moment.
    pub from: Timestamp,
    /// The first moment after it.
    pub until: Timestamp,
}

/// What an org's usage costs in one billing period, computed from observations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CostReport {
    /// The period.
    pub period: BillingPeriod,
    /// The currency of all amounts.
    #[schema(value_type = Currency, example = "EUR")]
    pub currency: String,
    /// How far usage is known; absent if nothing was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Timestamp>,
    /// What was used so far is worth.
    pub spent: Amount,
    /// The part of it that ran on simulated nodes.
    pub simulated: Amount,
    /// What runs now costs per hour.
    pub hourly: Amount,
    /// What the whole period will cost.
    pub forecast: Forecast,
    /// What the provider bears and the org does not pay.
    pub borne: Borne,
    /// The times in which usage was not observed.
    pub gaps: GapSummary,
    /// By service, the most expensive first.
    pub services: Vec<ServiceCost>,
    /// By item: a pod of a plan, a GiB of disk.
    pub items: Vec<ItemCost>,
    /// By day in the org's time zone, without days before the first usage.
    pub days: Vec<DayCost>,
    /// Usage without a price. It is never charged as zero.
    pub unpriced: Vec<UnpricedUsage>,
}

/// An expected cost and what the expectation is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Forecast {
    /// The amount.
    pub amount: Amount,
    /// What it assumes, in one sentence.
    pub basis: String,
}

/// What the provider bears.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Borne {
    /// Pods on lost nodes.
    pub under_delivered: Amount,
    /// Objects without a service.
    pub orphan: Amount,
}

/// The times in which usage was not observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GapSummary {
    /// How many.
    pub count: u64,
    /// Their length in seconds.
    pub seconds: i64,
}

/// The cost of one service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceCost {
    /// `svc_…`
    #[schema(value_type = ServiceId)]
    pub id: String,
    /// The project's name.
    pub project: String,
    /// The service's name.
    pub service: String,
    /// What it cost so far.
    pub spent: Amount,
    /// The part of it that ran on simulated nodes.
    pub simulated: Amount,
}

/// The cost of one item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ItemCost {
    /// `pod:PLAN`, `disk_gib:PLAN` or a meter.
    #[schema(example = "pod:small")]
    pub item: String,
    /// How much, exactly.
    #[schema(example = "5400.25")]
    pub quantity: String,
    /// The unit of the quantity.
    #[schema(example = "pod-second")]
    pub unit: String,
    /// What it cost so far.
    pub spent: Amount,
}

/// The cost of one day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DayCost {
    /// The day.
    #[schema(example = "2030-01-31")]
    pub day: String,
    /// What it cost.
    pub spent: Amount,
}

/// Usage without a price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnpricedUsage {
    /// What was used.
    pub item: String,
    /// How much, exactly.
    pub quantity: String,
    /// The unit of the quantity.
    pub unit: String,
    /// Why it has no price, and what to do.
    pub reason: String,
}

impl Client {
    /// What the org's usage costs, in the current billing period or in another month (`2030-01`).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn cost_get(&self, period: Option<&str>) -> Result<CostReport, ClientError> {
        self.get(&query("/v1/cost", &[("period", period)])).await
    }
}
