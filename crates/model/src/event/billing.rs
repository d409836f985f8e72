//! Facts about billing.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::budget::AtLimit;
use crate::id::{CreditId, InvoiceId, SubscriptionId};
use crate::money::Currency;
use crate::name::Name;

/// The billing account of an org was changed. Its name and address are personal data and are not
/// part of the event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BillingAccountChanged {
    /// The currency.
    pub currency: Currency,
    /// The time zone of billing periods.
    pub time_zone: String,
    /// The tax on invoices, in millionths.
    pub tax_ppm: u32,
    /// Who requested it.
    pub principal: String,
}

/// The budget of an org was set or removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetChanged {
    /// How much may be spent in a billing period, in millionths; absent if there is no budget any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_micros: Option<i64>,
    /// What happens at the limit.
    pub at_limit: AtLimit,
    /// Who requested it.
    pub principal: String,
}

/// Spending reached a share of the budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetReached {
    /// The share, in per cent.
    pub percent: i32,
    /// What was spent in this billing period, in millionths.
    pub spent_micros: i64,
    /// How much may be spent.
    pub limit_micros: i64,
    /// The currency.
    pub currency: Currency,
}

/// An org was granted credit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreditGranted {
    /// The credit.
    pub credit: CreditId,
    /// How much, in millionths of the currency.
    pub micros: i64,
    /// The currency.
    pub currency: Currency,
    /// Who granted it.
    pub principal: String,
}

/// An invoice was issued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InvoiceIssued {
    /// The invoice.
    pub invoice: InvoiceId,
    /// Its number.
    pub number: String,
    /// The first moment of the billing period.
    pub period_from: Timestamp,
    /// What is left to pay after credit, in millionths of the currency.
    pub due_micros: i64,
    /// The currency.
    pub currency: Currency,
    /// The hash of the document, in hexadecimal digits.
    pub hash: String,
    /// Who requested it.
    pub principal: String,
}

/// An invoice was paid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InvoicePaid {
    /// The invoice.
    pub invoice: InvoiceId,
    /// Its number.
    pub number: String,
    /// Who recorded it.
    pub principal: String,
}

/// An invoice was voided. Its usage will be on a later one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InvoiceVoided {
    /// The invoice.
    pub invoice: InvoiceId,
    /// Its number.
    pub number: String,
    /// Who requested it.
    pub principal: String,
}

/// A version of an offer was published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OfferPublished {
    /// The offer.
    pub offer: Name,
    /// The version.
    pub version: u32,
    /// Whether it is no longer offered.
    pub retired: bool,
    /// Who published it.
    pub principal: String,
}

/// The subscription of an org was changed. What held before stays on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SubscriptionChanged {
    /// The subscription.
    pub subscription: SubscriptionId,
    /// The offer.
    pub offer: Name,
    /// Its version.
    pub version: u32,
    /// The first moment it holds.
    pub from: Timestamp,
    /// Who requested it.
    pub principal: String,
}

/// An org whose subscription is paid in advance has no balance left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BalanceExhausted {
    /// What is left, in millionths: zero or less.
    pub balance_micros: i64,
    /// The currency.
    pub currency: Currency,
    /// What happens now.
    pub at_zero: AtLimit,
}
