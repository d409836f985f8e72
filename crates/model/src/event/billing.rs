//! Facts about billing.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::{CreditId, InvoiceId};
use crate::money::Currency;

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
