//! Who is asking, and what they may do.

use serde::{Deserialize, Serialize};

use crate::id::{OrgId, TokenId};

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
    /// The text in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Developer => "developer",
            Self::Owner => "owner",
            Self::Operator => "operator",
        }
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
