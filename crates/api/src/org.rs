//! Orgs on the wire.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::OrgId;
use trueup_model::name::Name;
use utoipa::ToSchema;

use crate::token::NewToken;

/// The body that creates an org.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "guild"}))]
pub struct OrgRequest {
    /// The name of the new org.
    #[schema(value_type = Name)]
    pub name: String,
}

/// An org as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Org {
    /// `org_…`
    #[schema(value_type = OrgId)]
    pub id: String,
    /// The org's name.
    pub name: String,
    /// When it was created.
    pub created_at: Timestamp,
}

/// A new org, with the token of its first owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewOrg {
    /// The org.
    #[serde(flatten)]
    pub org: Org,
    /// The token of the first owner. Its secret is shown only once.
    pub owner: NewToken,
}

/// A list of orgs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OrgList {
    /// In name order.
    pub items: Vec<Org>,
}
