//! The overview of an org: wire types and the client method.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use trueup_model::id::ServiceId;
use trueup_model::money::Currency;
use utoipa::ToSchema;

use crate::client::{Client, ClientError};
use crate::cluster::Cluster;
use crate::cost::{BillingPeriod, Forecast};
use crate::plan::Amount;

/// The state of an org at a glance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Overview {
    /// The time of this overview.
    pub as_of: Timestamp,
    /// The services that are not deleted, in numbers.
    pub services: ServiceCounts,
    /// What needs a person.
    pub needs: NeedList,
    /// What differs from its desired state now.
    pub drift: DriftNow,
    /// The work to remove the differences.
    pub work: WorkNow,
    /// The clusters, with their reachability.
    pub clusters: Vec<Cluster>,
    /// What is spent in the current billing period.
    pub spend: Spend,
    /// Events that happened and have no position yet.
    pub seal: SealLag,
}

/// Numbers of services, as they are shown: stale evidence counts as unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceCounts {
    /// All services.
    pub total: i64,
    /// By `reconciliation`: `settled`, `pending`, `diverged`. A missing value means zero.
    pub reconciliation: BTreeMap<String, i64>,
    /// By `health`.
    pub health: BTreeMap<String, i64>,
    /// By `phase`.
    pub phase: BTreeMap<String, i64>,
}

/// What needs a person: the ten worst, and how many there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NeedList {
    /// How many there are.
    pub total: i64,
    /// The worst first: blocked, in conflict, failing, proposed; then the oldest. At most ten.
    pub items: Vec<Need>,
}

/// Why something needs a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum NeedCause {
    /// The service is blocked.
    Blocked,
    /// Two writers fight over a field.
    Conflict,
    /// No pod of the service is ready, and the cause is known.
    Failing,
    /// A value waits for approval.
    Proposal,
}

/// Something that needs a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Need {
    /// Why.
    pub cause: NeedCause,
    /// The conflict (`cft_…`) or the divergence (`dvg_…`) to decide about, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The project's name.
    pub project: String,
    /// The service's name; absent for an object of the project itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The service's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ServiceId>)]
    pub service_id: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// What happened, and what to do.
    pub message: String,
    /// The price of the service, or the cost of the divergence, per hour; absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hourly: Option<Amount>,
}

/// Open divergences, and what they cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftNow {
    /// How many are open.
    pub open: i64,
    /// How many of them wait for approval.
    pub proposals: i64,
    /// How many fields two writers fight over.
    pub conflicts: i64,
    /// What the open ones cost per hour: an amount for each currency.
    pub hourly: Vec<Amount>,
}

/// Work in flight: services and projects that are to be brought to their desired state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkNow {
    /// How many are due and wait.
    pub queued: i64,
    /// How many are worked on.
    pub running: i64,
    /// How many failed too often; an operator has to act.
    pub dead: i64,
    /// Since when the oldest is due; absent if none waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_due_at: Option<Timestamp>,
}

/// What is spent in a billing period. It is computed at most every thirty seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Spend {
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
    /// What runs now costs per hour.
    pub hourly: Amount,
    /// What the whole period will cost.
    pub forecast: Forecast,
}

/// Events that happened and have no position in the log yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SealLag {
    /// How many.
    pub unsealed: i64,
    /// When the oldest happened; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_at: Option<Timestamp>,
}

impl Client {
    /// The state of the org at a glance.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn overview_get(&self) -> Result<Overview, ClientError> {
        self.get("/v1/overview").await
    }
}
