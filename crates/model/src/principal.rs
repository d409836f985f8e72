//! Principals: authenticated callers, their roles and permissions.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::id::{OrgId, TokenId};
use crate::org::PLATFORM;

/// What a token's holder may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Role {
    /// Reads.
    Viewer,
    /// Reads and changes services.
    Developer,
    /// May do everything in one org.
    Owner,
    /// Operates the platform; selects the org with each request.
    Operator,
}

impl Role {
    /// Every role, from the least to the most.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Developer, Self::Owner, Self::Operator];
}

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The token it authenticated with.
    pub token: TokenId,
    /// The name of the token.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The org it belongs to; none for operators.
    pub org: Option<OrgId>,
    /// The subset of its role's permissions it has; none means all of them.
    pub permissions: Option<BTreeSet<Permission>>,
    /// When it expires, if ever.
    pub expires_at: Option<Timestamp>,
}

impl Principal {
    /// The org its token belongs to: operators belong to the platform.
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
    /// Read projects, services and events.
    Read,
    /// Declare, change and delete services.
    ManageServices,
    /// Set variables and secrets; their values are never read back.
    ManageSecrets,
    /// Declare and change projects.
    ManageProjects,
    /// Create and revoke tokens of the org.
    ManageTokens,
    /// Manage templates, plans, clusters, orgs and quotas.
    ManagePlatform,
}

impl Permission {
    /// Every permission.
    pub const ALL: [Self; 6] = [
        Self::Read,
        Self::ManageServices,
        Self::ManageSecrets,
        Self::ManageProjects,
        Self::ManageTokens,
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
}
