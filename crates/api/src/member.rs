//! Members: wire types and client methods.

use jiff::Timestamp;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use trueup_model::principal::{Permission, Role};
use trueup_model::{ProjectId, UserId};
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
    /// The roles in single projects, in the order of their names.
    pub projects: Vec<RoleInProject>,
    /// Since when.
    pub joined_at: Timestamp,
}

/// A role in one project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RoleInProject {
    /// `prj_…`
    #[schema(value_type = ProjectId)]
    pub id: String,
    /// The project's name; null if it is deleted.
    pub name: Option<String>,
    /// The role there.
    pub role: Role,
    /// The permissions there.
    pub permissions: Vec<Permission>,
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

    /// Gives a member, by id or address, a role in one project, by name or id.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn project_role_put(
        &self,
        member: &str,
        project: &str,
        wanted: &MemberRequest,
    ) -> Result<Member, ClientError> {
        let (member, project) = (segment(member)?, segment(project)?);
        let path = format!("/v1/members/{member}/projects/{project}");
        Ok(self.put(&path, wanted).await?.1)
    }

    /// Takes the role that a member, by id or address, has in one project.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn project_role_delete(
        &self,
        member: &str,
        project: &str,
    ) -> Result<Member, ClientError> {
        let (member, project) = (segment(member)?, segment(project)?);
        let path = format!("/v1/members/{member}/projects/{project}");
        let response = self.send(self.request(Method::DELETE, &path), &path).await?;
        self.body(response, &path).await
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
