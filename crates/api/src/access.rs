//! Access decisions: wire types and client methods.

use serde::{Deserialize, Serialize};
use trueup_model::principal::{Permission, Role};
use utoipa::ToSchema;

use crate::client::{Client, ClientError, query};

/// What the caller may do in the org of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessDecisions {
    /// The role in the org.
    pub role: Role,
    /// A decision for each permission that was asked about.
    pub items: Vec<AccessDecision>,
}

/// Whether the caller has a permission, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessDecision {
    /// The permission.
    pub permission: Permission,
    /// Whether the caller has it.
    pub allowed: bool,
    /// Why.
    pub reason: String,
}

impl Client {
    /// Whether the caller has a permission, or each of them, in the org or in one project, and why.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn access_check(
        &self,
        permission: Option<&str>,
        project: Option<&str>,
    ) -> Result<AccessDecisions, ClientError> {
        self.get(&query("/v1/can-i", &[("permission", permission), ("project", project)])).await
    }
}
