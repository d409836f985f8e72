//! The ledger: wire types and client methods.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::id::ServiceId;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, query};
use crate::plan::Amount;

/// A balanced entry of the ledger. Entries are never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LedgerEntry {
    /// Its number; there are no holes.
    pub seq: i64,
    /// What it is about: `usage`, `credit`, `invoice` or `payment`.
    pub kind: String,
    /// The item of a line of usage: `pod:PLAN`, `disk_gib:PLAN` or a meter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// The first moment of the billing period of a line of usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_from: Option<Timestamp>,
    /// What it refers to, such as the number of an invoice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The hash of what it was computed from: for usage, of the line with every interval in it.
    pub evidence: String,
    /// When it was posted.
    pub posted_at: Timestamp,
    /// Its postings. They sum to zero.
    pub postings: Vec<LedgerPosting>,
}

/// A debit or a credit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LedgerPosting {
    /// The account: `receivable:…`, `revenue:METER`, `drift:KIND`, `rounding`, `credit:…`, `tax`, `cash`.
    pub account: String,
    /// The service it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ServiceId>)]
    pub service: Option<String>,
    /// The amount: a debit if it is positive, a credit if it is negative.
    pub amount: Amount,
}

/// A page of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LedgerPage {
    /// Oldest first.
    pub items: Vec<LedgerEntry>,
    /// The `after` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// The sums of all accounts of an org.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountList {
    /// By account. They sum to zero.
    pub items: Vec<AccountBalance>,
}

/// The sum of one account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountBalance {
    /// The account.
    pub account: String,
    /// Its sum: a debit if it is positive, a credit if it is negative.
    pub sum: Amount,
}

/// The result of computing everything again from transitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LedgerVerification {
    /// How many entries the ledger has.
    pub entries: i64,
    /// How many objects were metered again.
    pub objects: u64,
    /// How many lines were rated again.
    pub lines: u64,
    /// How many lines changed since usage was last posted; the next posting brings them in.
    pub pending: u64,
    /// The first difference, if there is one; absent means that all is as computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
}

impl Client {
    /// A page of the org's ledger, oldest first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn ledger_list(
        &self,
        after: Option<i64>,
        limit: Option<u32>,
    ) -> Result<LedgerPage, ClientError> {
        let (after, limit) =
            (after.map(|seq| seq.to_string()), limit.map(|limit| limit.to_string()));
        let parameters = [("after", after.as_deref()), ("limit", limit.as_deref())];
        self.get(&query("/v1/ledger", &parameters)).await
    }

    /// The sums of the org's accounts.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn ledger_accounts(&self) -> Result<AccountList, ClientError> {
        self.get("/v1/ledger/accounts").await
    }

    /// Computes the org's usage and costs again from transitions, and compares them.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn ledger_verify(&self) -> Result<LedgerVerification, ClientError> {
        self.get("/v1/ledger/verification").await
    }
}
