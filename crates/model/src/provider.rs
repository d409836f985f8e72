//! Identity providers: where the people of an org sign in, and which of their groups have which role.
//!
//! A provider vouches for people in its own org alone, and only for addresses in domains that the org has proved.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::domain::{DnsCheck, Host};
use crate::id::{DomainId, IdentityId, OrgId, ProviderId, UserId};
use crate::name::Name;
use crate::principal::Role;
use crate::secret::{Ciphertext, SecretValue, WrappedKey};

/// The group of a mapping that everybody is in.
pub const EVERYBODY: &str = "*";
/// The claim with the groups, unless a provider says otherwise.
pub const GROUPS_CLAIM: &str = "groups";
/// How long sessions outlive the last confirmation, unless a provider says otherwise.
pub const OUTAGE: SignedDuration = SignedDuration::from_hours(1);
/// How often each person of a provider is confirmed.
pub const CONFIRM_EVERY: SignedDuration = SignedDuration::from_mins(5);
/// A person whom a provider cannot confirm without a browser ends after this long without a sign-in.
pub const UNCONFIRMED_FOR: SignedDuration = SignedDuration::from_hours(7 * 24);
/// How long a person may take at the provider.
pub const SIGN_IN_WITHIN: SignedDuration = SignedDuration::from_mins(10);
/// The prefix of the secret that ties a sign-in to its browser. Like a token's, so that it is found in URLs.
pub const BROWSER_PREFIX: &str = "tu_sign_in_";

/// A role for the members of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupRole {
    /// The group, as the provider names it; [`EVERYBODY`] is everybody.
    pub group: String,
    /// The role in the org.
    pub role: Role,
}

/// What an owner declares about a provider, but for its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSpec {
    /// The issuer: its URL, as its ID tokens name it.
    pub issuer: String,
    /// The id that the provider gave to Trueup.
    pub client_id: String,
    /// The domains of the addresses that it vouches for.
    pub domains: Vec<Host>,
    /// The claim with the groups of a person.
    pub groups_claim: String,
    /// The roles of groups. The first group that a person is in counts.
    pub groups: Vec<GroupRole>,
    /// Whether people can sign in with it.
    pub enabled: bool,
    /// How long sessions outlive the last confirmation, in minutes.
    pub outage_minutes: u32,
}

/// A domain of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderDomain {
    /// Its id: the text of the TXT record that proves it.
    pub id: DomainId,
    /// The domain.
    pub host: Host,
    /// Since when it is proved.
    pub verified_at: Option<Timestamp>,
    /// The last DNS check that did not prove it.
    pub last: Option<DnsCheck>,
    /// When the next check is due.
    pub next_at: Option<Timestamp>,
}

/// What was last heard of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contact {
    /// When it last confirmed somebody.
    pub confirmed_at: Option<Timestamp>,
    /// When a request to it last failed.
    pub failed_at: Option<Timestamp>,
    /// Why that failed.
    pub failure: Option<String>,
}

/// Whether a provider answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[schema(as = ProviderState)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ProviderState {
    /// Nobody has signed in with it yet.
    Unused,
    /// Its last answer confirmed somebody.
    Answers,
    /// The last request to it failed: sessions live for a bounded time, and nobody can sign in.
    Unavailable,
    /// It is switched off: nobody can sign in with it, and its sessions have ended.
    Disabled,
}

/// An identity provider of an org, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Its id.
    pub id: ProviderId,
    /// Its name in the org.
    pub name: Name,
    /// What was declared.
    pub spec: ProviderSpec,
    /// Whether a client secret is set.
    pub has_secret: bool,
    /// Its domains, with their proofs.
    pub domains: Vec<ProviderDomain>,
    /// What was last heard of it.
    pub contact: Contact,
    /// How many people it vouches for now.
    pub people: i64,
    /// When it was declared.
    pub created_at: Timestamp,
}

impl Provider {
    /// Whether it answers.
    #[must_use]
    pub fn state(&self) -> ProviderState {
        let Contact { confirmed_at, failed_at, .. } = &self.contact;
        match (self.spec.enabled, failed_at, confirmed_at) {
            (false, _, _) => ProviderState::Disabled,
            (true, Some(failed), Some(confirmed)) if failed <= confirmed => ProviderState::Answers,
            (true, Some(_), _) => ProviderState::Unavailable,
            (true, None, Some(_)) => ProviderState::Answers,
            (true, None, None) => ProviderState::Unused,
        }
    }
}

/// What a credential of a provider is. It is associated data of its encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialKind {
    /// The secret that the provider gave to Trueup.
    ClientSecret(ProviderId),
    /// The token that confirms a person without their browser.
    RefreshToken(IdentityId),
}

/// A credential with all that is needed to decrypt it, except for the install's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncryptedCredential {
    /// The org that it belongs to.
    pub org: OrgId,
    /// What it is.
    pub kind: CredentialKind,
    /// The encrypted value.
    pub sealed: Ciphertext,
    /// The data key of its org; none if it was destroyed.
    pub org_key: Option<WrappedKey>,
}

/// What a client needs to talk to a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderConnection {
    /// The org.
    pub org: OrgId,
    /// The provider.
    pub provider: ProviderId,
    /// The issuer.
    pub issuer: String,
    /// The id of Trueup at the provider.
    pub client_id: String,
    /// Its secret there; none for a public client.
    pub secret: Option<EncryptedCredential>,
    /// The claim with the groups.
    pub groups_claim: String,
}

/// What a browser is sent to a provider with, and what its return is checked against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorization {
    /// Where the browser goes.
    pub url: String,
    /// Returned by the browser: which sign-in it is.
    pub state: SecretValue,
    /// Part of the ID token: the provider made it for this sign-in.
    pub nonce: SecretValue,
    /// Sent with the code: whoever redeems it is who began the sign-in (PKCE).
    pub verifier: SecretValue,
}

/// A code that a browser brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnedCode {
    /// The code.
    pub code: SecretValue,
    /// The nonce that the ID token must have.
    pub nonce: SecretValue,
    /// The PKCE verifier.
    pub verifier: SecretValue,
}

/// Who a provider says somebody is, checked as far as signatures and times go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The provider's own name for the person, which never changes.
    pub subject: String,
    /// The address.
    pub email: Option<String>,
    /// Whether the provider has verified the address.
    pub email_verified: bool,
    /// The name of the person.
    pub name: Option<String>,
    /// The groups.
    pub groups: Vec<String>,
    /// Confirms the person again, if the provider gave one.
    pub refresh_token: Option<SecretValue>,
}

/// Why a provider did not vouch for somebody. The texts are for owners, never for whoever signs in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// It cannot be reached, or does not work: nothing is known about the person.
    #[error("{0}")]
    Unavailable(String),
    /// It does not know the person or the code any more.
    #[error("{0}")]
    Refused(String),
    /// It answered what must not be believed.
    #[error("{0}")]
    NotValid(String),
}

/// Why somebody lost what a provider gave them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[schema(as = IdentityEnd)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum IdentityEnd {
    /// The provider does not confirm the person any more.
    Refused,
    /// No group of the person has a role.
    NoRole,
    /// The address is not in a proved domain any more, or is not verified.
    NoAddress,
    /// The provider was deleted.
    ProviderDeleted,
    /// Somebody removed the member.
    MemberRemoved,
    /// The provider gives no refresh token, and the person has not signed in for a week.
    Unconfirmed,
}

/// A person whose confirmation is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueConfirmation {
    /// The identity.
    pub identity: IdentityId,
    /// The person.
    pub user: UserId,
    /// The subject at the provider.
    pub subject: String,
    /// The provider.
    pub connection: ProviderConnection,
    /// The token that confirms the person; none if the provider gave none.
    pub refresh_token: Option<EncryptedCredential>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_is_unavailable_only_while_its_last_request_failed() {
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        let spec = ProviderSpec {
            issuer: "https://id.example.com".to_owned(),
            client_id: "trueup".to_owned(),
            domains: Vec::new(),
            groups_claim: GROUPS_CLAIM.to_owned(),
            groups: Vec::new(),
            enabled: true,
            outage_minutes: 60,
        };
        let state = |confirmed_at, failed_at, enabled| {
            let provider = Provider {
                id: ProviderId::from_parts(Timestamp::UNIX_EPOCH, [1; 10]),
                name: "okta".parse().unwrap(),
                spec: ProviderSpec { enabled, ..spec.clone() },
                has_secret: true,
                domains: Vec::new(),
                contact: Contact { confirmed_at, failed_at, failure: None },
                people: 0,
                created_at: Timestamp::UNIX_EPOCH,
            };
            provider.state()
        };
        assert_eq!(state(None, None, true), ProviderState::Unused);
        assert_eq!(state(at(2), None, true), ProviderState::Answers);
        assert_eq!(state(at(2), at(1), true), ProviderState::Answers);
        assert_eq!(state(at(1), at(2), true), ProviderState::Unavailable);
        assert_eq!(state(None, at(2), true), ProviderState::Unavailable);
        assert_eq!(state(at(2), None, false), ProviderState::Disabled);
    }
}
