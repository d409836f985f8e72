//! Credits: wire types and client methods.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::id::CreditId;
use trueup_model::money::Currency;
use utoipa::ToSchema;

use crate::client::{Client, ClientError};
use crate::plan::Amount;
use crate::schema::{CreditAmount, Sentence};

/// Credit that an org was granted. Invoices use the credit first that ends first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Credit {
    /// `crd_…`
    #[schema(value_type = CreditId)]
    pub id: String,
    /// How much was granted.
    pub granted: Amount,
    /// How much of it paid invoices.
    pub used: Amount,
    /// How much of it expired.
    pub expired: Amount,
    /// What is left.
    pub left: Amount,
    /// Why it was granted.
    pub reason: String,
    /// When the rest expires; absent if it never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// Who granted it.
    pub granted_by: String,
}

/// The credits of an org.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreditList {
    /// Oldest first.
    pub items: Vec<Credit>,
    /// What is left of all of them.
    pub left: Amount,
}

/// The body that grants credit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"micros": 25_000_000, "currency": "EUR", "reason": "welcome"}))]
pub struct CreditGrantBody {
    /// How much, in millionths of the currency.
    #[schema(value_type = CreditAmount)]
    pub micros: i64,
    /// The currency: that of the org's billing account.
    #[schema(value_type = Currency)]
    pub currency: String,
    /// Why.
    #[schema(value_type = Sentence)]
    pub reason: String,
    /// When the rest expires; if omitted, never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl Client {
    /// The credits of the org.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn credit_list(&self) -> Result<CreditList, ClientError> {
        self.get("/v1/credits").await
    }

    /// Grants credit to an org. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn credit_grant(&self, body: &CreditGrantBody) -> Result<Credit, ClientError> {
        self.post("/v1/credits", body).await
    }
}
