//! Findings: objects in a cluster with Trueup's label and without a record. For operators.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::finding::FindingClass;
use trueup_model::id::{ClusterId, FindingId};
use utoipa::ToSchema;

use crate::client::{Client, ClientError, query, segment};
use crate::plan::Amount;

/// A finding as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// `fnd_…`
    #[schema(value_type = FindingId)]
    pub id: String,
    /// The cluster the object is in.
    #[schema(value_type = ClusterId)]
    pub cluster: String,
    /// Why the object is a finding.
    pub class: FindingClass,
    /// The object: `Deployment/namespace/name`.
    pub object: String,
    /// The object's uid.
    pub uid: String,
    /// The owner in its label: `svc_…` or `prj_…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What it would be sold for per hour; absent if the price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hourly: Option<Amount>,
    /// When it was found.
    pub found_at: Timestamp,
    /// When it was last seen.
    pub seen_at: Timestamp,
    /// When it was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// Why it was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_why: Option<String>,
    /// The name of the token that requested its removal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove_by: Option<String>,
    /// Why it could not be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_why: Option<String>,
}

/// A list of findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingList {
    /// In the order in which they were found.
    pub items: Vec<Finding>,
    /// The `after` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The body that requests the removal of a finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"confirm": 11}))]
pub struct FindingRemoveBody {
    /// The number from a TU1008 response, to confirm a removal beyond the limit per hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 11)]
    pub confirm: Option<u64>,
}

impl Client {
    /// A page of findings: the open ones, or with `closed` all. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn finding_list(
        &self,
        closed: bool,
        after: Option<&str>,
    ) -> Result<FindingList, ClientError> {
        let parameters = [("closed", closed.then_some("true")), ("after", after)];
        self.get(&query("/v1/findings", &parameters)).await
    }

    /// Requests the removal of a finding. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn finding_remove(
        &self,
        finding: &str,
        body: &FindingRemoveBody,
    ) -> Result<Finding, ClientError> {
        let path = format!("/v1/findings/{}/remove", segment(finding)?);
        self.post(&path, body).await
    }
}
