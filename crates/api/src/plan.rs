//! Plans: wire types and client methods.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::id::PriceVersionId;
use trueup_model::money::Currency;
use trueup_model::name::Name;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, is_change, segment};
use crate::schema::{Micros, PlanCpu, PlanGpus, PlanMemory};

/// The body that declares a plan, and its document in a manifest file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "summary": "A quarter of a core and 256 MiB.", "cpu_millis": 250, "memory_mib": 256,
    "hourly_micros": 6000, "currency": "EUR"
}))]
pub struct PlanManifest {
    /// `Plan`; may be omitted in an API body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The name; may be omitted in an API body, where the path names the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Name>)]
    pub name: Option<String>,
    /// A description in one sentence.
    pub summary: String,
    /// Thousandths of a core per pod.
    #[schema(example = 250)]
    #[schema(value_type = PlanCpu)]
    pub cpu_millis: u32,
    /// Mebibytes of memory per pod.
    #[schema(example = 256)]
    #[schema(value_type = PlanMemory)]
    pub memory_mib: u32,
    /// Whole GPUs per pod.
    #[serde(default)]
    #[schema(value_type = PlanGpus)]
    pub gpus: u32,
    /// Mebibytes of the node's disk per pod; if omitted, the limit of the project's pods.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schema(value_type = PlanGpus)]
    pub ephemeral_mib: u32,
    /// The price of one pod per hour, in millionths of the currency.
    #[schema(example = 6000)]
    #[schema(value_type = Micros)]
    pub hourly_micros: i64,
    /// The price of one GiB of disk per hour, in millionths of the currency.
    #[serde(default)]
    #[schema(value_type = Micros)]
    pub disk_gib_hourly_micros: i64,
    /// The currency: three capital letters.
    #[schema(example = "EUR")]
    #[schema(value_type = Currency, example = "EUR")]
    pub currency: String,
    /// The class of nodes that its pods run on, by the label `trueup.dev/node-class`; if omitted,
    /// any node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Name>)]
    pub nodes: Option<String>,
    /// Whether the plan is retired: no new services; existing ones keep it.
    #[serde(default)]
    pub retired: bool,
    /// When a changed price begins; if omitted, at once. Everything else applies at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_from: Option<Timestamp>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references to such functions")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A plan as it is shown, with the price that holds now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// The plan's name.
    #[schema(value_type = Name)]
    pub name: String,
    /// A description in one sentence.
    pub summary: String,
    /// Thousandths of a core per pod.
    pub cpu_millis: u32,
    /// Mebibytes of memory per pod.
    pub memory_mib: u32,
    /// Whole GPUs per pod.
    pub gpus: u32,
    /// Mebibytes of the node's disk per pod; 0 for the limit of the project's pods.
    #[serde(default)]
    #[schema(required = true)]
    pub ephemeral_mib: u32,
    /// The class of nodes that its pods run on; null for any node.
    #[schema(value_type = Option<Name>)]
    pub nodes: Option<String>,
    /// The price of one pod per hour.
    pub hourly: Amount,
    /// The price of one pod per month.
    pub monthly: Amount,
    /// The price of one GiB of disk per hour.
    pub disk_gib_hourly: Amount,
    /// Whether the plan is retired.
    pub retired: bool,
}

/// An amount of money, exact and formatted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Amount {
    /// Millionths of the currency.
    #[schema(example = 4_380_000)]
    pub micros: i64,
    /// The currency: three capital letters.
    #[schema(example = "EUR")]
    #[schema(value_type = Currency, example = "EUR")]
    pub currency: String,
    /// The amount as text.
    #[schema(example = "4.38 EUR")]
    pub text: String,
}

/// A price of a plan, from one moment to the next price. It never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanPrice {
    /// `prc_…`
    #[schema(value_type = PriceVersionId)]
    pub id: String,
    /// The first moment it holds.
    pub from: Timestamp,
    /// The first moment it no longer holds; null while it has no end.
    pub until: Option<Timestamp>,
    /// The price of one pod per hour.
    pub hourly: Amount,
    /// The price of one GiB of disk per hour.
    pub disk_gib_hourly: Amount,
    /// The name of the token that published it; `Trueup` for prices that Trueup came with.
    pub created_by: String,
    /// When it was published.
    pub created_at: Timestamp,
}

/// The prices of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanPriceList {
    /// Newest first. The first ones may begin in the future.
    pub items: Vec<PlanPrice>,
}

/// A list of plans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanList {
    /// Retired plans last, each group by price.
    pub items: Vec<Plan>,
}

impl Client {
    /// Every plan.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn plan_list(&self) -> Result<PlanList, ClientError> {
        self.get("/v1/plans").await
    }

    /// Every price that a plan has had and will have.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn plan_prices(&self, name: &str) -> Result<PlanPriceList, ClientError> {
        self.get(&format!("/v1/plans/{}/prices", segment(name)?)).await
    }

    /// Creates or updates a plan; returns whether it changed. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn plan_put(
        &self,
        name: &str,
        manifest: &PlanManifest,
    ) -> Result<(Plan, bool), ClientError> {
        let path = format!("/v1/plans/{}", segment(name)?);
        let (status, plan) = self.put(&path, manifest).await?;
        Ok((plan, is_change(status)))
    }
}
