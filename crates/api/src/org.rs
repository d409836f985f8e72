//! Orgs: wire types and client methods.

use jiff::Timestamp;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use trueup_model::OrgId;
use trueup_model::name::Name;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, is_change, segment};
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
    /// When its deletion was requested. Nothing new is accepted in it from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleting_at: Option<Timestamp>,
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

/// The result of a request to delete an org.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedOrg {
    /// The org as it is now.
    pub org: Org,
    /// Whether this request changed anything.
    pub changed: bool,
}

impl Client {
    /// Every org. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn org_list(&self) -> Result<OrgList, ClientError> {
        self.get("/v1/orgs").await
    }

    /// One org, by name or id.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn org_get(&self, name_or_id: &str) -> Result<Org, ClientError> {
        self.get(&org_path(name_or_id)?).await
    }

    /// Creates an org and the token of its first owner. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn org_create(&self, wanted: &OrgRequest) -> Result<NewOrg, ClientError> {
        self.post("/v1/orgs", wanted).await
    }

    /// Deletes every project of an org, and accepts nothing new in it. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn org_delete(&self, name_or_id: &str) -> Result<AcceptedOrg, ClientError> {
        let path = org_path(name_or_id)?;
        let response = self.send(self.request(Method::DELETE, &path), &path).await?;
        let changed = is_change(response.status());
        Ok(AcceptedOrg { org: self.body(response, &path).await?, changed })
    }
}

pub(crate) fn org_path(name_or_id: &str) -> Result<String, ClientError> {
    Ok(format!("/v1/orgs/{}", segment(name_or_id)?))
}
