//! Billing accounts: wire types and client methods.

use reqwest::Method;
use serde::{Deserialize, Serialize};
use trueup_model::money::Currency;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, query};
use crate::schema::{TaxPercent, TimeZoneName};

/// How an org is billed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "currency": "EUR", "time_zone": "Europe/Berlin", "tax_percent": "19",
    "legal_name": "Example Games Ltd", "address": "1 Example Road\n12345 Example City"
}))]
pub struct BillingAccount {
    /// The currency: three capital letters. It stays once something was posted in it.
    #[schema(value_type = Currency, example = "EUR")]
    pub currency: String,
    /// The time zone in which billing periods are calendar months. It stays once something was posted.
    #[schema(value_type = TimeZoneName)]
    pub time_zone: String,
    /// The tax on invoices, in per cent with up to four decimal places.
    #[schema(value_type = TaxPercent)]
    pub tax_percent: String,
    /// The name of the customer, as printed on invoices.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub legal_name: String,
    /// The address of the customer, as printed on invoices.
    #[serde(default)]
    #[schema(max_length = 500)]
    pub address: String,
}

impl Client {
    /// What the org was charged in a month (such as `2030-01`), as CSV with the columns of FOCUS.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn billing_export(&self, period: Option<&str>) -> Result<Vec<u8>, ClientError> {
        let path = query("/v1/billing-export", &[("period", period)]);
        let response = self.send(self.request(Method::GET, &path), &path).await?;
        self.bytes(response).await
    }

    /// How the org is billed.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn billing_account_get(&self) -> Result<BillingAccount, ClientError> {
        self.get("/v1/billing-account").await
    }

    /// Sets how an org is billed. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn billing_account_put(
        &self,
        account: &BillingAccount,
    ) -> Result<BillingAccount, ClientError> {
        let (_, account) = self.put("/v1/billing-account", account).await?;
        Ok(account)
    }
}
