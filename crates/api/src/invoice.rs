//! Invoices: wire types and client methods.

use jiff::Timestamp;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use trueup_model::id::{InvoiceId, PriceVersionId, ServiceId, TransitionId};
use trueup_model::invoice::InvoiceState;
use trueup_model::money::Currency;
use trueup_model::usage::Basis;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, query, segment};
use crate::cost::BillingPeriod;
use crate::ledger::LedgerEntry;
use crate::plan::Amount;
use crate::schema::{BillingMonth, Sentence};
use crate::transition::Transition;

/// An invoice. What was issued never changes; only its state does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Invoice {
    /// `inv_…`
    #[schema(value_type = InvoiceId)]
    pub id: String,
    /// Its number: for each org without holes.
    #[schema(example = "ACME-0007")]
    pub number: String,
    /// What became of it.
    pub state: InvoiceState,
    /// The billing period.
    pub period: BillingPeriod,
    /// The currency of all amounts.
    #[schema(value_type = Currency, example = "EUR")]
    pub currency: String,
    /// Who sells.
    pub seller: Party,
    /// Who pays.
    pub customer: Party,
    /// What is charged.
    pub lines: Vec<InvoiceLine>,
    /// The sum of the lines.
    pub subtotal: Amount,
    /// The tax in per cent.
    #[schema(example = "19")]
    pub tax_percent: String,
    /// The tax on the sum.
    pub tax: Amount,
    /// The sum with tax.
    pub total: Amount,
    /// What was paid with credit.
    pub credit: Amount,
    /// What is left to pay. An invoice below zero is a credit note.
    pub due: Amount,
    /// The last ledger entry that it takes into account.
    pub ledger_seq: i64,
    /// The SHA-256 of the document as it was issued.
    pub hash: String,
    /// When it was issued.
    pub issued_at: Timestamp,
    /// When it is to be paid.
    pub due_at: Timestamp,
    /// When it was paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paid_at: Option<Timestamp>,
    /// When it was voided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voided_at: Option<Timestamp>,
    /// How it was paid, or why it was voided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Who sells or pays, as printed on an invoice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Party {
    /// The name.
    pub name: String,
    /// The address; lines are separated by line feeds.
    pub address: String,
    /// The tax number of the seller, or the org of the customer.
    pub reference: String,
}

/// What is charged for one item at one price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InvoiceLine {
    /// Its id within the invoice.
    #[schema(example = "6f1c0e2a9b3d4c58")]
    pub id: String,
    /// What was used.
    #[schema(example = "pod:small")]
    pub item: String,
    /// How much, exactly.
    #[schema(example = "2629800")]
    pub quantity: String,
    /// The unit of the quantity.
    #[schema(example = "pod-second")]
    pub unit: String,
    /// The price per hour; absent for tiers and packages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hourly: Option<Amount>,
    /// The price version.
    #[schema(value_type = PriceVersionId)]
    pub price: String,
    /// The first moment of the usage and of the price.
    pub from: Timestamp,
    /// The end of the billing period that it was used in.
    pub until: Timestamp,
    /// What it costs.
    pub amount: Amount,
    /// Whether it corrects a former period.
    pub correction: bool,
    /// The ledger entries that it sums up.
    pub entries: Vec<i64>,
    /// The hash of every interval in it, as it was last posted.
    pub evidence: String,
}

/// A page of invoices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InvoiceList {
    /// Newest first.
    pub items: Vec<Invoice>,
    /// The `after` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The format of an invoice as a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DocumentFormat {
    /// The document as it was issued: its SHA-256 is the invoice's hash.
    #[default]
    Json,
    /// To print and send.
    Pdf,
    /// A row for each line.
    Csv,
}

/// The body that issues an invoice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"early": true}))]
pub struct InvoiceIssueBody {
    /// The month; if omitted, the current one. Earlier usage without an invoice is included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BillingMonth>)]
    pub period: Option<String>,
    /// With `true` a month that is not over is invoiced as far as usage is known.
    #[serde(default)]
    pub early: bool,
}

/// The body that records a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"method": "bank transfer 2030-02-03"}))]
pub struct InvoicePayBody {
    /// How it was paid.
    #[schema(value_type = Sentence)]
    pub method: String,
}

/// The body that voids an invoice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"reason": "wrong address"}))]
pub struct InvoiceVoidBody {
    /// Why.
    #[schema(value_type = Sentence)]
    pub reason: String,
}

/// A line of an invoice, opened down to what was observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LineExplanation {
    /// The number of the invoice.
    pub invoice: String,
    /// The line.
    pub line: InvoiceLine,
    /// The ledger entries that it sums up.
    pub entries: Vec<LedgerEntry>,
    /// What was used, in order of time.
    pub intervals: Vec<LineInterval>,
    /// The amount of the line less the values of its intervals: rounding and minimums.
    pub rounding: Amount,
    /// The transitions that the intervals were computed from.
    pub transitions: Vec<Transition>,
    /// Whether usage computed again is exactly what was charged. If not, it was corrected since.
    pub unchanged: bool,
}

/// A time in which one object was used, as far as a line charges it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LineInterval {
    /// The uid of the pod or claim.
    pub object: String,
    /// `svc_…`; absent for an object without a service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ServiceId>)]
    pub service: Option<String>,
    /// Its first moment.
    pub from: Timestamp,
    /// The first moment after it.
    pub until: Timestamp,
    /// How much was used, in the unit of the line.
    pub quantity: String,
    /// Its part of the amount, to the millionth.
    pub value: Amount,
    /// What the quantity is based on.
    pub basis: Basis,
    /// Whether it ran on a simulated node.
    pub simulated: bool,
    /// The hash of the interval.
    pub hash: String,
    /// The first evidence of it.
    pub first: LineEvidence,
    /// The last evidence of it.
    pub last: LineEvidence,
}

/// An observation that shows usage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LineEvidence {
    /// When it was observed.
    pub seen_at: Timestamp,
    /// The process that observed it.
    pub observer: String,
    /// The epoch of the cluster's lease.
    pub epoch: i64,
    /// The transition; absent if it was seen to be unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<TransitionId>)]
    pub transition: Option<String>,
}

impl Client {
    /// A page of the org's invoices, newest first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn invoice_list(&self, after: Option<&str>) -> Result<InvoiceList, ClientError> {
        self.get(&query("/v1/invoices", &[("after", after)])).await
    }

    /// An invoice, by its number or id.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn invoice_get(&self, invoice: &str) -> Result<Invoice, ClientError> {
        self.get(&format!("/v1/invoices/{}", segment(invoice)?)).await
    }

    /// A line of an invoice, opened down to what was observed.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn invoice_explain(
        &self,
        invoice: &str,
        line: &str,
    ) -> Result<LineExplanation, ClientError> {
        let (invoice, line) = (segment(invoice)?, segment(line)?);
        self.get(&format!("/v1/invoices/{invoice}/lines/{line}")).await
    }

    /// An invoice as a file: `pdf`, `csv` or `json`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn invoice_document(
        &self,
        invoice: &str,
        format: &str,
    ) -> Result<Vec<u8>, ClientError> {
        let path = format!("/v1/invoices/{}/document", segment(invoice)?);
        let path = query(&path, &[("format", Some(format))]);
        let response = self.send(self.request(Method::GET, &path), &path).await?;
        self.bytes(response).await
    }

    /// Invoices what the org used and no invoice has. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn invoice_issue(&self, body: &InvoiceIssueBody) -> Result<Invoice, ClientError> {
        self.post("/v1/invoices", body).await
    }

    /// Records that an invoice was paid. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn invoice_pay(
        &self,
        invoice: &str,
        body: &InvoicePayBody,
    ) -> Result<Invoice, ClientError> {
        self.post(&format!("/v1/invoices/{}/pay", segment(invoice)?), body).await
    }

    /// Withdraws an invoice that is not paid. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn invoice_void(
        &self,
        invoice: &str,
        body: &InvoiceVoidBody,
    ) -> Result<Invoice, ClientError> {
        self.post(&format!("/v1/invoices/{}/void", segment(invoice)?), body).await
    }
}
