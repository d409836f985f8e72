//! Principals: authenticated callers, their roles and permissions.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::id::{OrgId, ProjectId, TokenId, UserId};
use crate::org::PLATFORM;

/// A named set of permissions; `rules::access` says which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Role {
    /// Belongs to an org and may do nothing in it but what roles in single projects add.
    Member,
    /// Reads.
    Viewer,
    /// Reads what an org pays.
    Billing,
    /// Reads and changes services.
    Developer,
    /// Runs services and projects without seeing their content.
    Admin,
    /// May do everything in one org.
    Owner,
    /// Reads every org and the platform, without the content of services.
    Auditor,
    /// Operates the platform; selects the org with each request.
    Operator,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 8] = [
        Self::Member,
        Self::Viewer,
        Self::Billing,
        Self::Developer,
        Self::Admin,
        Self::Owner,
        Self::Auditor,
        Self::Operator,
    ];

    /// Whether it belongs to the platform and acts in every org.
    #[must_use]
    pub const fn is_of_platform(self) -> bool {
        match self {
            Self::Member
            | Self::Viewer
            | Self::Billing
            | Self::Developer
            | Self::Admin
            | Self::Owner => false,
            Self::Auditor | Self::Operator => true,
        }
    }

    /// The roles that can be given in a single project: what an org pays or who belongs to it is not
    /// part of a project.
    pub const OF_PROJECT: [Self; 3] = [Self::Viewer, Self::Developer, Self::Admin];
}

/// Who acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PrincipalId {
    /// A token.
    Token(TokenId),
    /// A person who signed in.
    User(UserId),
    /// Trueup itself.
    System,
}

impl PrincipalId {
    /// Its id, without the kind.
    #[must_use]
    pub const fn uuid(self) -> Uuid {
        match self {
            Self::Token(id) => id.uuid(),
            Self::User(id) => id.uuid(),
            Self::System => Uuid::nil(),
        }
    }

    /// Its id, if it is a person.
    #[must_use]
    pub const fn user(self) -> Option<UserId> {
        match self {
            Self::User(id) => Some(id),
            Self::Token(_) | Self::System => None,
        }
    }

    /// Its id, if it is a token.
    #[must_use]
    pub const fn token(self) -> Option<TokenId> {
        match self {
            Self::Token(id) => Some(id),
            Self::User(_) | Self::System => None,
        }
    }
}

impl fmt::Display for PrincipalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(id) => id.fmt(f),
            Self::User(id) => id.fmt(f),
            Self::System => f.write_str("system"),
        }
    }
}

/// A text that is not the id of a principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be the id of a token or a user")]
pub struct UnknownPrincipal;

impl FromStr for PrincipalId {
    type Err = UnknownPrincipal;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let token = text.parse().map(Self::Token).ok();
        token.or_else(|| text.parse().map(Self::User).ok()).ok_or(UnknownPrincipal)
    }
}

/// A role in a single project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectRole {
    /// The project.
    pub project: ProjectId,
    /// Its name; none once it is deleted, when another one may have the name.
    pub name: Option<String>,
    /// The role.
    pub role: Role,
}

/// An authenticated caller, in one org.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Who it is.
    pub id: PrincipalId,
    /// Its name: of the token, or of the person.
    pub name: String,
    /// Its role in the org or on the platform.
    pub role: Role,
    /// Its roles in single projects of the org.
    pub projects: Vec<ProjectRole>,
    /// The org it has the role in; none for roles of the platform.
    pub org: Option<OrgId>,
    /// The subset of its roles' permissions it has; none means all of them.
    pub permissions: Option<BTreeSet<Permission>>,
    /// When it expires, if ever.
    pub expires_at: Option<Timestamp>,
}

impl Principal {
    /// The org that its role belongs to; the platform's own for roles of the platform.
    #[must_use]
    pub fn home(&self) -> OrgId {
        self.org.unwrap_or(PLATFORM)
    }
}

/// A permission that an operation requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Permission {
    /// Read projects, services, members and events.
    Read,
    /// Read what services contain and print: logs, variables, and the names of secrets.
    ReadContent,
    /// Read costs, invoices and the ledger.
    ReadBilling,
    /// Set the budget of the org.
    ManageBilling,
    /// Declare, change and delete services.
    ManageServices,
    /// Set variables and secrets; the values of secrets are never read back.
    ManageSecrets,
    /// Declare and change projects.
    ManageProjects,
    /// Create and revoke tokens of the org.
    ManageTokens,
    /// Invite people, change their roles and remove them.
    ManageMembers,
    /// Read what is shared by all orgs: orgs, findings, wakes, metrics.
    ReadPlatform,
    /// Manage templates, plans, clusters, orgs, quotas and invoices.
    ManagePlatform,
}

impl Permission {
    /// Every permission.
    pub const ALL: [Self; 11] = [
        Self::Read,
        Self::ReadContent,
        Self::ReadBilling,
        Self::ManageBilling,
        Self::ManageServices,
        Self::ManageSecrets,
        Self::ManageProjects,
        Self::ManageTokens,
        Self::ManageMembers,
        Self::ReadPlatform,
        Self::ManagePlatform,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_the_stored_text() {
        for role in Role::ALL {
            assert_eq!(role.into_str().parse(), Ok(role));
            assert_eq!(serde_json::to_value(role).unwrap(), role.into_str());
        }
        for permission in Permission::ALL {
            assert_eq!(permission.into_str().parse(), Ok(permission));
            assert_eq!(serde_json::to_value(permission).unwrap(), permission.into_str());
        }
        assert!("root".parse::<Role>().is_err() && "".parse::<Permission>().is_err());
    }

    #[test]
    fn principal_prints_and_parses_as_its_own_id() {
        let id = Uuid::from_u128(7);
        for principal in
            [PrincipalId::Token(TokenId::from_uuid(id)), PrincipalId::User(UserId::from_uuid(id))]
        {
            assert_eq!(principal.to_string().parse(), Ok(principal));
            assert_eq!(principal.uuid(), id);
        }
        // A loop has no id: events name it.
        assert!("system".parse::<PrincipalId>().is_err());
    }
}
