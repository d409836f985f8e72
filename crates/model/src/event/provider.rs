//! Facts about identity providers, and about the people whom they vouch for.
//!
//! Like all facts they name people by id alone.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::{IdentityId, ProviderId, UserId};
use crate::provider::{GroupRole, IdentityEnd};

/// An identity provider was declared or changed. The client secret is in no event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderChanged {
    /// The provider.
    pub provider: ProviderId,
    /// Its name.
    pub name: String,
    /// Its issuer.
    pub issuer: String,
    /// The roles of groups, as they are now.
    pub groups: Vec<GroupRole>,
    /// Whether people can sign in with it.
    pub enabled: bool,
    /// Who requested it.
    pub principal: String,
}

/// An identity provider was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderDeleted {
    /// The provider.
    pub provider: ProviderId,
    /// Who requested it.
    pub principal: String,
}

/// An immediate check of a provider was requested: of its domains, and of everybody it vouches for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderCheckRequested {
    /// The provider.
    pub provider: ProviderId,
    /// Who requested it.
    pub principal: String,
}

/// DNS proved that the org has a domain of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderDomainVerified {
    /// The provider.
    pub provider: ProviderId,
    /// The domain.
    pub host: String,
}

/// A provider cannot be asked: sessions that it began live for a bounded time, and nobody can sign in with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderUnavailable {
    /// The provider.
    pub provider: ProviderId,
    /// What happened.
    pub why: String,
}

/// A provider that could not be asked answers again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderAnswers {
    /// The provider.
    pub provider: ProviderId,
}

/// A sign-in with a provider was refused. Whoever tried is not told why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderSignInRefused {
    /// The provider.
    pub provider: ProviderId,
    /// Why.
    pub why: String,
}

/// A provider vouched for somebody for the first time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IdentityLinked {
    /// The identity.
    pub identity: IdentityId,
    /// The provider.
    pub provider: ProviderId,
    /// The person.
    pub user: UserId,
}

/// A provider does not vouch for somebody any more: their sessions with it have ended, and what it gave them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IdentityEnded {
    /// The identity.
    pub identity: IdentityId,
    /// The provider.
    pub provider: ProviderId,
    /// The person.
    pub user: UserId,
    /// Why.
    pub reason: IdentityEnd,
    /// The evidence: what the provider answered.
    pub evidence: String,
}
