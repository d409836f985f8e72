//! Releases: wire types and client methods.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use trueup_model::id::{PriceVersionId, ReleaseId};
use trueup_model::service::DesiredState;
use trueup_model::spec::Spec;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, query};
use crate::service::service_path;

/// One accepted generation of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Release {
    /// `rel_…`
    #[schema(value_type = ReleaseId)]
    pub id: String,
    /// The generation.
    pub generation: i64,
    /// The operation: `declare`, `pause`, `rollback` …
    pub action: String,
    /// The name of the token that requested it.
    pub principal: String,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// The template version it was resolved from.
    pub template: String,
    /// The plan, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// `prc_…`: the price of the plan that held when it was accepted; absent without a plan, and for
    /// releases that are older than price versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<PriceVersionId>)]
    pub price_version: Option<String>,
    /// The parameters as they were given.
    #[schema(value_type = Object)]
    pub parameters: Map<String, Value>,
    /// The desired state.
    pub desired: DesiredState,
    /// The resolved spec. A rollback uses it, even if the template has changed since.
    pub spec: Spec,
}

/// A page of releases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReleaseList {
    /// Newest first.
    pub items: Vec<Release>,
    /// The `before` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

impl Client {
    /// A page of a service's releases, newest first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn release_list(
        &self,
        project: &str,
        name_or_id: &str,
        before: Option<i64>,
        limit: Option<u32>,
    ) -> Result<ReleaseList, ClientError> {
        let path = format!("{}/releases", service_path(project, name_or_id)?);
        let (before, limit) = (before.map(|n| n.to_string()), limit.map(|n| n.to_string()));
        let parameters = [("before", before.as_deref()), ("limit", limit.as_deref())];
        self.get(&query(&path, &parameters)).await
    }
}
