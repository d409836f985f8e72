//! Invoices and credits: what an org is asked to pay, and what it may pay with.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::billing::Seller;
use crate::id::{ClusterId, CreditId, InvoiceId, PriceVersionId};
use crate::money::Currency;
use crate::price::PriceItem;
use crate::usage::{Evidence, Source, Span};

/// What became of an invoice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum InvoiceState {
    /// It was sent and is to be paid.
    Issued,
    /// It was paid.
    Paid,
    /// It was withdrawn. Its usage is on a later invoice.
    Void,
}

/// An invoice as it was issued. It never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvoiceDocument {
    /// Its number.
    pub number: String,
    /// Who sells.
    pub seller: Seller,
    /// The name of the customer.
    pub customer: String,
    /// The address of the customer.
    pub address: String,
    /// The name of the org.
    pub org: String,
    /// The billing period.
    pub period: Span,
    /// The time zone of the period.
    pub time_zone: String,
    /// The currency of all amounts.
    pub currency: Currency,
    /// What is charged.
    pub lines: Vec<InvoiceLine>,
    /// The sum of the lines.
    pub subtotal_micros: i64,
    /// The tax rate, in millionths.
    pub tax_ppm: u32,
    /// The tax on the sum.
    pub tax_micros: i64,
    /// The sum with tax.
    pub total_micros: i64,
    /// What was paid with credit.
    pub credit_micros: i64,
    /// What is left to pay.
    pub due_micros: i64,
    /// The last ledger entry that it takes into account.
    pub ledger_seq: i64,
    /// How far the sources of each cluster were heard when it was cut.
    #[serde(default)]
    pub heard: BTreeMap<ClusterId, BTreeMap<Source, Evidence>>,
    /// When it was issued.
    pub issued_at: Timestamp,
    /// When it is to be paid.
    pub due_at: Timestamp,
}

/// What is charged for one item at one price in one billing period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvoiceLine {
    /// The beginning of the hash that identifies the line.
    pub id: String,
    /// What was used.
    pub item: PriceItem,
    /// The billing period that it was used in.
    pub period: Span,
    /// Since when the price holds, within the period.
    pub from: Timestamp,
    /// The price.
    pub price: PriceVersionId,
    /// The price per hour, in millionths; none for tiers and packages.
    pub hourly_micros: Option<i64>,
    /// How much, in millionths of the meter's unit, as a decimal number.
    pub quantity: String,
    /// What it costs.
    pub amount_micros: i64,
    /// Whether it corrects a former period.
    pub correction: bool,
    /// The ledger entries that it sums up.
    pub entries: Vec<i64>,
    /// The hash of the line as it was last posted, with every interval in it.
    pub evidence: String,
}

/// An invoice as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invoice {
    /// Its id.
    pub id: InvoiceId,
    /// What became of it.
    pub state: InvoiceState,
    /// What was issued.
    pub document: InvoiceDocument,
    /// The hash of what was issued, in hexadecimal digits.
    pub hash: String,
    /// When it was paid.
    pub paid_at: Option<Timestamp>,
    /// When it was voided.
    pub voided_at: Option<Timestamp>,
    /// Why it was voided, or how it was paid.
    pub reason: Option<String>,
}

/// Credit that an org was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credit {
    /// Its id.
    pub id: CreditId,
    /// How much was granted.
    pub granted_micros: i64,
    /// How much of it was used.
    pub used_micros: i64,
    /// How much of it expired unused.
    pub expired_micros: i64,
    /// The currency.
    pub currency: Currency,
    /// Why it was granted.
    pub reason: String,
    /// When the rest expires; none if it never does.
    pub expires_at: Option<Timestamp>,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// The name of the token that granted it.
    pub granted_by: String,
}

impl Credit {
    /// What is left of it.
    #[must_use]
    pub const fn left_micros(&self) -> i64 {
        self.granted_micros.saturating_sub(self.used_micros).saturating_sub(self.expired_micros)
    }

    /// Whether it can be used at a moment.
    #[must_use]
    pub fn holds_at(&self, at: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| at < end)
    }
}
