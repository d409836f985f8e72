//! Budgets: wire types and client methods.

use jiff::Timestamp;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use trueup_model::budget::AtLimit;
use trueup_model::money::Currency;
use utoipa::ToSchema;

use crate::client::{Client, ClientError};
use crate::plan::Amount;
use crate::schema::CreditAmount;

/// How much an org may spend in a billing period, and how much of it is spent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Budget {
    /// The limit; absent if the org has no budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// The end of the billing period.
    pub until: Timestamp,
}

/// A limit, and how much of it is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Limit {
    /// How much may be spent.
    pub amount: Amount,
    /// What happens at the limit.
    pub at_limit: AtLimit,
    /// What was posted in this period.
    pub spent: Amount,
    /// What the accepted services will cost until the end of the period.
    pub held: Amount,
    /// What is left; below zero if more is spent and held.
    pub left: Amount,
}

/// The body that sets a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"micros": 50_000_000, "currency": "EUR", "at_limit": "refuse"}))]
pub struct BudgetBody {
    /// How much may be spent in a billing period, in millionths of the currency.
    #[schema(value_type = CreditAmount)]
    pub micros: i64,
    /// The currency: that of the org's billing account.
    #[schema(value_type = Currency)]
    pub currency: String,
    /// What happens at the limit: `warn`, `refuse` or `pause`.
    #[schema(value_type = AtLimit)]
    pub at_limit: String,
}

impl Client {
    /// The budget of the org.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn budget_get(&self) -> Result<Budget, ClientError> {
        self.get("/v1/budget").await
    }

    /// The budget of a project.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn project_budget_get(&self, project: &str) -> Result<Budget, ClientError> {
        self.get(&format!("/v1/projects/{project}/budget")).await
    }

    /// Sets the budget of a project.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn project_budget_put(
        &self,
        project: &str,
        body: &BudgetBody,
    ) -> Result<Budget, ClientError> {
        let (_, budget) = self.put(&format!("/v1/projects/{project}/budget"), body).await?;
        Ok(budget)
    }

    /// Removes the budget of a project.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn project_budget_delete(&self, project: &str) -> Result<Budget, ClientError> {
        let path = format!("/v1/projects/{project}/budget");
        let response = self.send(self.request(Method::DELETE, &path), &path).await?;
        self.body(response, &path).await
    }

    /// Sets the budget of the org.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn budget_put(&self, body: &BudgetBody) -> Result<Budget, ClientError> {
        let (_, budget) = self.put("/v1/budget", body).await?;
        Ok(budget)
    }

    /// Removes the budget of the org.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn budget_delete(&self) -> Result<Budget, ClientError> {
        let path = "/v1/budget";
        let response = self.send(self.request(Method::DELETE, path), path).await?;
        self.body(response, path).await
    }
}
