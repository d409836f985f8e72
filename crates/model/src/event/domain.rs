//! Facts about domains.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::OrgId;

/// A domain was added; it is routed once verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DomainAdded {
    /// Which host.
    pub host: String,
    /// Who requested it.
    pub principal: String,
}

/// The org's ownership of a host was verified, or the verification withdrawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DomainVerified {
    /// Which host.
    pub host: String,
    /// Whether it is verified now.
    pub verified: bool,
    /// Who verified or withdrew it; `dns` for a DNS check.
    pub principal: String,
}

/// An immediate DNS check of a host was requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DomainCheckRequested {
    /// Which host.
    pub host: String,
    /// Who requested it.
    pub principal: String,
}

/// DNS verifies a host for an org while another org has it. Nothing changed; operators decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DomainContested {
    /// Which host.
    pub host: String,
    /// The org that DNS verifies it for.
    pub claimant: OrgId,
}

/// A domain was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DomainRemoved {
    /// Which host.
    pub host: String,
    /// Who requested it.
    pub principal: String,
}
