//! The stored form of facts about people: memberships, and identity providers.

use trueup_model::event::{
    Fact, IdentityEnded, IdentityLinked, MemberAdded, MemberRoleChanged, PlanChanged,
    ProviderAnswers, ProviderChanged, ProviderCheckRequested, ProviderDeleted,
    ProviderDomainVerified, ProviderSignInRefused, ProviderUnavailable,
};
use trueup_model::principal::Role;
use trueup_model::provider::{GroupRole, IdentityEnd};

/// The fact after this one.
pub(super) fn after(fact: &Fact) -> Fact {
    let provider = trueup_model::id::ProviderId::from_uuid(uuid::Uuid::from_u128(10));
    let identity = trueup_model::id::IdentityId::from_uuid(uuid::Uuid::from_u128(11));
    let user = trueup_model::UserId::from_uuid(uuid::Uuid::from_u128(8));
    let (principal, why) = ("owner".to_owned(), "no answer within 8 seconds".to_owned());
    if matches!(fact, Fact::SignInRefused(_)) {
        let (role, invitation) = (Role::Billing, None);
        Fact::MemberAdded(MemberAdded { user, role, invitation, principal })
    } else if matches!(fact, Fact::MemberAdded(_)) {
        let (from, to) = (Role::Billing, Role::Admin);
        Fact::MemberRoleChanged(MemberRoleChanged { user, from, to, principal })
    } else if matches!(fact, Fact::InvitationRevoked(_)) {
        Fact::ProviderChanged(ProviderChanged {
            provider,
            name: "okta".to_owned(),
            issuer: "https://id.example.com".to_owned(),
            groups: vec![GroupRole { group: "platform".to_owned(), role: Role::Developer }],
            enabled: true,
            principal,
        })
    } else if matches!(fact, Fact::ProviderChanged(_)) {
        Fact::ProviderDeleted(ProviderDeleted { provider, principal })
    } else if matches!(fact, Fact::ProviderDeleted(_)) {
        Fact::ProviderCheckRequested(ProviderCheckRequested { provider, principal })
    } else if matches!(fact, Fact::ProviderCheckRequested(_)) {
        let host = "example.com".to_owned();
        Fact::ProviderDomainVerified(ProviderDomainVerified { provider, host })
    } else if matches!(fact, Fact::ProviderDomainVerified(_)) {
        Fact::ProviderUnavailable(ProviderUnavailable { provider, why })
    } else if matches!(fact, Fact::ProviderUnavailable(_)) {
        Fact::ProviderAnswers(ProviderAnswers { provider })
    } else if matches!(fact, Fact::ProviderAnswers(_)) {
        Fact::ProviderSignInRefused(ProviderSignInRefused { provider, why })
    } else if matches!(fact, Fact::ProviderSignInRefused(_)) {
        Fact::IdentityLinked(IdentityLinked { identity, provider, user })
    } else if matches!(fact, Fact::IdentityLinked(_)) {
        Fact::IdentityEnded(IdentityEnded {
            identity,
            provider,
            user,
            reason: IdentityEnd::Refused,
            evidence: "it answered invalid_grant".to_owned(),
        })
    } else {
        Fact::PlanChanged(PlanChanged {
            plan: "small".parse().expect("a name"),
            retired: false,
            principal,
            price: None,
        })
    }
}
