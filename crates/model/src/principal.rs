//! Who is asking, and what they may do.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{OrgId, TokenId};
use crate::org::PLATFORM;

/// What a token's holder may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Reads and changes services.
    Developer,
    /// Everything in one org.
    Owner,
    /// Runs the platform; names the org with each request.
    Operator,
}

impl Role {
    /// Every role, from the least to the most.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Developer, Self::Owner, Self::Operator];

    /// The text in the database and on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Developer => "developer",
            Self::Owner => "owner",
            Self::Operator => "operator",
        }
    }

    /// The role of this name.
    #[must_use]
    pub fn find(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The token that was shown.
    pub token: TokenId,
    /// What its holder is called.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The org it belongs to; none for operators.
    pub org: Option<OrgId>,
    /// The only permissions it has of its role; none means all of them.
    pub permissions: Option<BTreeSet<Permission>>,
    /// When it ends, if it does.
    pub expires_at: Option<Timestamp>,
}

impl Principal {
    /// The org whose tokens it belongs to: operators belong to the platform.
    #[must_use]
    pub fn home(&self) -> OrgId {
        self.org.unwrap_or(PLATFORM)
    }
}

/// What a caller wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// Look at projects, services, events.
    Read,
    /// Declare, change and delete services.
    ManageServices,
    /// Set variables and secrets; their values are never read back.
    ManageSecrets,
    /// Declare and change projects.
    ManageProjects,
    /// Make and revoke tokens of the org.
    ManageTokens,
    /// What is the same for every org: templates, plans, clusters, and the orgs with their quotas.
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

    /// The text in the database and on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::ManageServices => "manage_services",
            Self::ManageSecrets => "manage_secrets",
            Self::ManageProjects => "manage_projects",
            Self::ManageTokens => "manage_tokens",
            Self::ManagePlatform => "manage_platform",
        }
    }

    /// The permission of this name.
    #[must_use]
    pub fn find(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|permission| permission.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_is_stored() {
        for role in Role::ALL {
            assert_eq!(Role::find(role.as_str()), Some(role));
            assert_eq!(serde_json::to_value(role).unwrap(), role.as_str());
        }
        for permission in Permission::ALL {
            assert_eq!(Permission::find(permission.as_str()), Some(permission));
            assert_eq!(serde_json::to_value(permission).unwrap(), permission.as_str());
        }
        assert_eq!((Role::find("root"), Permission::find("")), (None, None));
    }
}
