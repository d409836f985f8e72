//! Offers: named, versioned terms that orgs subscribe to.
//!
//! A version never changes. Whoever subscribed to one keeps it until the subscription is changed, so
//! publishing another version changes nothing for them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::budget::AtLimit;
use crate::id::{DiscountId, OrgId, PriceVersionId, SubscriptionId};
use crate::money::Currency;
use crate::name::Name;
use crate::price::{PriceItem, Scheme};
use crate::quota::Amounts;

/// The terms of one version of an offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Its name.
    pub name: Name,
    /// Its version, from 1 on.
    #[serde(default)]
    pub version: u32,
    /// A one-sentence description.
    pub summary: String,
    /// The currency of its amounts. An org that is billed in another one cannot subscribe.
    pub currency: Currency,
    /// The fee of a whole billing period, in millionths of the currency.
    pub fee_micros: i64,
    /// The id that ledger lines name as the price of the fee.
    #[serde(default = "no_price")]
    pub fee: PriceVersionId,
    /// How much an org may reserve at once.
    pub limits: Amounts,
    /// What costs nothing in each billing period.
    #[serde(default)]
    pub included: Vec<Included>,
    /// Prices that hold instead of list prices.
    #[serde(default)]
    pub prices: Vec<OfferPrice>,
    /// What is taken off prices. The fee is never discounted.
    #[serde(default)]
    pub discounts: Vec<OfferDiscount>,
    /// What happens when the org has no balance left; none if it is billed afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_zero: Option<AtLimit>,
    /// Whether it is no longer offered. Subscriptions that have it keep it.
    #[serde(default)]
    pub retired: bool,
}

/// The id before one is assigned.
const fn no_price() -> PriceVersionId {
    PriceVersionId::from_uuid(uuid::Uuid::nil())
}

/// The id before one is assigned.
const fn no_discount() -> DiscountId {
    DiscountId::from_uuid(uuid::Uuid::nil())
}

/// Units of an item that are included in each billing period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Included {
    /// The item.
    pub item: PriceItem,
    /// How many units of its meter.
    pub units: u64,
}

/// A price that holds for subscribers instead of the list price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfferPrice {
    /// The id that ledger lines name.
    #[serde(default = "no_price")]
    pub id: PriceVersionId,
    /// The item.
    pub item: PriceItem,
    /// How the price is computed.
    pub scheme: Scheme,
}

/// A discount for subscribers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfferDiscount {
    /// The id that ledger lines name.
    #[serde(default = "no_discount")]
    pub id: DiscountId,
    /// What it is for; none for everything that is metered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<PriceItem>,
    /// How many millionths of the price are taken off.
    pub off_ppm: u32,
}

impl Offer {
    /// Whether two versions have the same terms: everything but ids and numbers.
    #[must_use]
    pub fn has_terms_of(&self, other: &Self) -> bool {
        self.without_ids() == other.without_ids()
    }

    fn without_ids(&self) -> Self {
        let mut terms = Self { version: 0, fee: no_price(), ..self.clone() };
        for price in &mut terms.prices {
            price.id = no_price();
        }
        for discount in &mut terms.discounts {
            discount.id = no_discount();
        }
        terms
    }
}

/// The subscription of an org from one moment to the next change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Its id.
    pub id: SubscriptionId,
    /// The org.
    pub org: OrgId,
    /// Its place among all changes of the org's subscription, from 1 on.
    pub number: i32,
    /// The terms.
    pub offer: Offer,
    /// The first moment it holds.
    pub from: Timestamp,
    /// The first moment it no longer holds; none while no change is recorded.
    pub until: Option<Timestamp>,
    /// When it was recorded: at or before `from`.
    pub created_at: Timestamp,
    /// Who requested it.
    pub created_by: String,
}

impl Subscription {
    /// Whether it holds at a moment.
    #[must_use]
    pub fn holds_at(&self, at: Timestamp) -> bool {
        self.from <= at && self.until.is_none_or(|until| at < until)
    }
}
