//! Orgs on the wire.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::token::NewToken;

/// The body that makes an org.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrgRequest {
    /// What to call it.
    pub name: String,
}

/// An org as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Org {
    /// `org_…`
    pub id: String,
    /// What people call it.
    pub name: String,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// An org that was just made, with the token of its first owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewOrg {
    /// As it will be listed.
    #[serde(flatten)]
    pub org: Org,
    /// For its first owner. The secret is shown now and never again.
    pub owner: NewToken,
}

/// A list of orgs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OrgList {
    /// In name order.
    pub items: Vec<Org>,
}
