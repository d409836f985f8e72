//! Explanations of a service's state, and the check of stored projections.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trueup_model::ServiceId;
use trueup_model::why::LinkStep;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, query};
use crate::service::service_path;

/// An explanation of a service's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// `svc_…`
    #[schema(value_type = ServiceId)]
    pub service: String,
    /// The answer in one sentence.
    pub answer: String,
    /// The chain of causes, from the request to what the service waits for.
    pub links: Vec<WhyLink>,
    /// What would unblock it; absent if it is not blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unblock: Option<String>,
}

/// One link of the chain of causes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhyLink {
    /// Which link.
    pub step: LinkStep,
    /// What is known.
    pub text: String,
    /// When it happened or began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The evidence: ids, and uids with their resourceVersions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proof: Vec<String>,
}

/// The result of recomputing statuses from their stored inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectionCheck {
    /// Statuses that were checked.
    pub checked: u64,
    /// Statuses that are identical, byte for byte.
    pub same: u64,
    /// Statuses that older rules projected; they are not compared.
    pub older: u64,
    /// Statuses without observations to compute them from.
    pub unobserved: u64,
    /// Statuses that differ.
    pub different: Vec<ProjectionDifference>,
    /// The `after` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A stored status that differs from the recomputed one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectionDifference {
    /// `svc_…` or `prj_…`
    pub unit: String,
    /// The stored status.
    #[schema(value_type = Object)]
    pub stored: Value,
    /// The recomputed status.
    #[schema(value_type = Object)]
    pub rebuilt: Value,
}

impl Client {
    /// Explains the state of a service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_why(&self, project: &str, name_or_id: &str) -> Result<Why, ClientError> {
        self.get(&format!("{}/why", service_path(project, name_or_id)?)).await
    }

    /// Recomputes a page of the org's statuses and compares them with the stored ones.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn projection_check(
        &self,
        after: Option<&str>,
    ) -> Result<ProjectionCheck, ClientError> {
        self.get(&query("/v1/projections/check", &[("after", after), ("limit", Some("1000"))]))
            .await
    }
}
