//! Offers and subscriptions: wire types and client methods.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::budget::AtLimit;
use trueup_model::id::SubscriptionId;
use trueup_model::money::Currency;
use trueup_model::name::Name;
use trueup_model::quota as model;
use utoipa::ToSchema;

use crate::client::{Client, ClientError};
use crate::plan::Amount;
use crate::quota::Amounts;
use crate::schema::{
    DiscountPpm, IncludedAmount, ItemName, Micros, OfferVersion, Sentence, UnitCount,
};

/// What orgs can subscribe to: one version of an offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Offer {
    /// Its name.
    #[schema(value_type = Name)]
    pub name: String,
    /// Its version. A version never changes.
    pub version: u32,
    /// A description in one sentence.
    pub summary: String,
    /// The fee of a billing period.
    pub fee: Amount,
    /// How much an org may reserve at once.
    pub limits: model::Amounts,
    /// What costs nothing in each billing period.
    pub included: Vec<IncludedUnits>,
    /// Prices that hold instead of list prices.
    pub prices: Vec<OfferPrice>,
    /// What is taken off prices.
    pub discounts: Vec<OfferDiscount>,
    /// What happens when the org has no balance left; absent if it is billed afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_zero: Option<AtLimit>,
    /// Whether it is no longer offered.
    pub retired: bool,
}

/// The newest version of every offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OfferList {
    /// The offers.
    pub items: Vec<Offer>,
}

/// Units that are included in each billing period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IncludedUnits {
    /// The item: `pod:PLAN`, `disk_gib:PLAN` or a meter.
    #[schema(value_type = ItemName, example = "pod:small")]
    pub item: String,
    /// How many units of its meter: pods and disks count in seconds.
    #[schema(value_type = IncludedAmount, example = 2_678_400)]
    pub units: u64,
}

/// A price that holds instead of the list price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OfferPrice {
    /// The item: `pod:PLAN`, `disk_gib:PLAN` or a meter.
    #[schema(value_type = ItemName, example = "pod:small")]
    pub item: String,
    /// The price of `per` units, in millionths of the currency.
    #[schema(value_type = Micros, example = 5000)]
    pub micros: i64,
    /// How many units it is the price of; pods and disks count in seconds, so an hour is 3600.
    #[serde(default = "hour")]
    #[schema(value_type = UnitCount, example = 3600)]
    pub per: u64,
}

const fn hour() -> u64 {
    trueup_model::price::SECONDS_PER_HOUR
}

/// A discount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OfferDiscount {
    /// The item; absent for everything that is metered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ItemName>, example = "pod:large")]
    pub item: Option<String>,
    /// How many millionths of the price are taken off: 100000 is 10 %.
    #[schema(value_type = DiscountPpm, example = 100_000)]
    pub off_ppm: u32,
}

/// The body that publishes an offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "kind": "Offer", "name": "team", "summary": "For a team.", "currency": "EUR", "fee_micros": 49_000_000,
    "limits": {"services": 200, "cpu_millis": 100_000, "memory_mib": 262_144, "storage_gib": 2000, "gpus": 8},
    "included": [{"item": "pod:small", "units": 2_678_400}],
    "prices": [{"item": "pod:large", "micros": 100_000, "per": 3600}],
    "discounts": [{"item": "pod:gpu", "off_ppm": 50_000}]
}))]
pub struct OfferManifest {
    /// `Offer`; may be omitted in an API body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The name; may be omitted in an API body, where the path names the offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Name>)]
    pub name: Option<String>,
    /// A description in one sentence.
    #[schema(value_type = Sentence)]
    pub summary: String,
    /// The currency of all amounts.
    #[schema(value_type = Currency)]
    pub currency: String,
    /// The fee of a billing period, in millionths of the currency.
    #[schema(value_type = Micros)]
    pub fee_micros: i64,
    /// How much an org may reserve at once.
    pub limits: Amounts,
    /// What costs nothing in each billing period.
    #[serde(default)]
    pub included: Vec<IncludedUnits>,
    /// Prices that hold instead of list prices.
    #[serde(default)]
    pub prices: Vec<OfferPrice>,
    /// What is taken off prices.
    #[serde(default)]
    pub discounts: Vec<OfferDiscount>,
    /// What happens when the org has no balance left: `warn`, `refuse` or `pause`; absent if it is billed
    /// afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<AtLimit>)]
    pub at_zero: Option<String>,
    /// Whether it is no longer offered.
    #[serde(default)]
    pub retired: bool,
}

/// What an org subscribed to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Subscription {
    /// What holds now; absent without a subscription.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<Subscribed>,
    /// What begins later; absent if no change is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Subscribed>,
    /// What is used of the included units in this billing period.
    pub included: Vec<IncludedUse>,
    /// What the org was granted and paid, less what it was charged; below zero if it owes something.
    pub balance: Amount,
    /// The end of the billing period.
    pub until: Timestamp,
}

/// An offer, and when it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Subscribed {
    /// `sub_…`
    #[schema(value_type = SubscriptionId)]
    pub id: String,
    /// The offer.
    pub offer: Offer,
    /// The first moment it holds.
    pub from: Timestamp,
    /// The first moment it no longer holds; absent while it has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The use of included units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IncludedUse {
    /// The item.
    pub item: String,
    /// The unit.
    pub unit: String,
    /// The units that are included in this billing period, or in its part with this subscription.
    pub units: String,
    /// The units that were used of them.
    pub used: String,
    /// The units that were charged, because more was used.
    pub charged: String,
}

/// The body that changes a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"offer": "team", "at": "next_period"}))]
pub struct SubscriptionBody {
    /// The offer.
    #[schema(value_type = Name)]
    pub offer: String,
    /// Its version; the newest one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<OfferVersion>)]
    pub version: Option<u32>,
    /// When: `now`, or `next_period` for the next billing period in the org's time zone.
    #[schema(value_type = BeginsAt)]
    pub at: String,
}

/// When a change begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(strum::EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum BeginsAt {
    /// At once. The billing period is divided at this moment.
    Now,
    /// With the next billing period in the org's time zone.
    NextPeriod,
}

/// What a change of a subscription does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SubscriptionChange {
    /// What holds until then; absent without a subscription.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Subscribed>,
    /// What holds from then on.
    pub after: Subscribed,
    /// What everything that runs now costs in a whole billing period before the change, with the fee.
    pub monthly_before: Amount,
    /// The same after the change.
    pub monthly_after: Amount,
    /// The difference.
    pub monthly_difference: Amount,
    /// The limit of each resource, before and after.
    pub limits: Vec<LimitChange>,
    /// What happens at that moment that may be unexpected.
    pub warnings: Vec<String>,
}

/// A limit before and after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitChange {
    /// The resource.
    pub resource: model::Resource,
    /// How much is used now.
    pub used: i64,
    /// The limit now.
    pub before: i64,
    /// The limit after the change.
    pub after: i64,
}

impl Client {
    /// The newest version of every offer.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn offer_list(&self) -> Result<OfferList, ClientError> {
        self.get("/v1/offers").await
    }

    /// Publishes an offer. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn offer_put(
        &self,
        offer: &str,
        manifest: &OfferManifest,
    ) -> Result<Offer, ClientError> {
        let (_, offer) = self.put(&format!("/v1/offers/{offer}"), manifest).await?;
        Ok(offer)
    }

    /// What the org subscribed to.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn subscription_get(&self) -> Result<Subscription, ClientError> {
        self.get("/v1/subscription").await
    }

    /// Changes the subscription of the org.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn subscription_put(
        &self,
        body: &SubscriptionBody,
    ) -> Result<SubscriptionChange, ClientError> {
        let (_, change) = self.put("/v1/subscription", body).await?;
        Ok(change)
    }
}
