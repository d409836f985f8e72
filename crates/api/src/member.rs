//! Members: wire types and client methods.

use jiff::Timestamp;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use trueup_model::UserId;
use trueup_model::principal::Role;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, segment};

/// A member of an org.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Member {
    /// `usr_…`
    #[schema(value_type = UserId)]
    pub id: String,
    /// The person's name.
    pub name: String,
    /// The person's address.
    pub email: String,
    /// The role in the org.
    pub role: Role,
    /// Since when.
    pub joined_at: Timestamp,
}

/// A list of members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberList {
    /// In the order of their addresses.
    pub items: Vec<Member>,
}

/// The body that gives a member a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"role": "developer"}))]
pub struct MemberRequest {
    /// The role.
    #[schema(value_type = Role)]
    pub role: String,
}

impl Client {
    /// The members of the org.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn member_list(&self) -> Result<MemberList, ClientError> {
        self.get("/v1/members").await
    }

    /// Gives a member, by id or address, another role.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn member_put(
        &self,
        member: &str,
        wanted: &MemberRequest,
    ) -> Result<Member, ClientError> {
        let path = format!("/v1/members/{}", segment(member)?);
        Ok(self.put(&path, wanted).await?.1)
    }

    /// Removes a member, by id or address.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn member_delete(&self, member: &str) -> Result<Member, ClientError> {
        let path = format!("/v1/members/{}", segment(member)?);
        let response = self.send(self.request(Method::DELETE, &path), &path).await?;
        self.body(response, &path).await
    }
}
