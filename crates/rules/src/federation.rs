//! Federation: which providers are accepted, and what one of them may say about a person.

use trueup_model::domain::Host;
use trueup_model::principal::{Principal, Role};
use trueup_model::provider::{
    Claims, EVERYBODY, GroupRole, IdentityEnd, ProviderDomain, ProviderSpec,
};
use trueup_model::user::{EmailAddress, check_name};

use crate::access::may_give;
use crate::admit::FieldError;

/// The most domains of a provider.
const MOST_DOMAINS: usize = 20;
/// The most groups of a provider that have a role.
const MOST_GROUPS: usize = 100;
/// The longest text that a provider gives to copy: a client id, a group, a claim.
const LONGEST: usize = 200;
/// The longest issuer.
const LONGEST_URL: usize = 500;
/// How long sessions may outlive the last confirmation: from five minutes to a day.
const OUTAGE_MINUTES: std::ops::RangeInclusive<u32> = 5..=1440;

/// Checks what an owner declares; returns every field that is wrong.
///
/// With `allow_local` an issuer on this machine may use plain HTTP.
#[must_use]
pub fn check(spec: &ProviderSpec, allow_local: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut wrong = |field: &str, message: String| {
        errors.push(FieldError { field: field.to_owned(), message });
    };
    if let Err(message) = check_issuer(&spec.issuer, allow_local) {
        wrong("issuer", message.to_owned());
    }
    for (field, text) in [("client_id", &spec.client_id), ("groups_claim", &spec.groups_claim)] {
        if !is_plain(text) {
            wrong(field, format!("must have 1 to {LONGEST} characters and no control characters"));
        }
    }
    if !(1..=MOST_DOMAINS).contains(&spec.domains.len()) {
        wrong("domains", format!("must name 1 to {MOST_DOMAINS} domains of email addresses"));
    }
    if !(1..=MOST_GROUPS).contains(&spec.groups.len()) {
        let message = format!("must give 1 to {MOST_GROUPS} groups a role; `*` is everybody");
        wrong("groups", message);
    }
    for (index, GroupRole { group, role }) in spec.groups.iter().enumerate() {
        if !is_plain(group) {
            let message = format!("must have 1 to {LONGEST} characters and no control characters");
            wrong(&format!("groups.{index}.group"), message);
        }
        if role.is_of_platform() {
            let message = "must be a role of an org: a provider gives no role of the platform";
            wrong(&format!("groups.{index}.role"), message.to_owned());
        }
    }
    if !OUTAGE_MINUTES.contains(&spec.outage_minutes) {
        let (least, most) = (OUTAGE_MINUTES.start(), OUTAGE_MINUTES.end());
        wrong("outage_minutes", format!("must be from {least} to {most}"));
    }
    errors
}

fn is_plain(text: &str) -> bool {
    let length = text.chars().count();
    (1..=LONGEST).contains(&length) && !text.chars().any(char::is_control)
}

/// An issuer is an HTTPS URL without query and fragment (OpenID Connect Discovery 1.0, section 3).
fn check_issuer(text: &str, allow_local: bool) -> Result<(), &'static str> {
    const MESSAGE: &str = "must be the provider's issuer: an https URL such as \
                           https://id.example.com, without user, query and fragment";
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic()) && text.len() <= LONGEST_URL;
    if !plain || text.contains(['?', '#', '@', '\\']) {
        return Err(MESSAGE);
    }
    if let Some(rest) = text.strip_prefix("https://") {
        return if rest.is_empty() || rest.starts_with('/') { Err(MESSAGE) } else { Ok(()) };
    }
    let local = ["127.0.0.1", "localhost", "[::1]"].iter().any(|host| {
        let rest = text.strip_prefix("http://").and_then(|rest| rest.strip_prefix(host));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']))
    });
    if local && allow_local { Ok(()) } else { Err(MESSAGE) }
}

/// Whether somebody may let groups have these roles: they have every permission of each.
#[must_use]
pub fn may_map(giver: &Principal, groups: &[GroupRole]) -> bool {
    groups.iter().all(|group| may_give(giver, group.role))
}

/// The role of a person in these groups: that of the first mapped group that they are in.
#[must_use]
pub fn role_of(mapping: &[GroupRole], groups: &[String]) -> Option<Role> {
    let is_in = |wanted: &&GroupRole| wanted.group == EVERYBODY || groups.contains(&wanted.group);
    mapping.iter().find(is_in).map(|found| found.role)
}

/// A person whom a provider vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vouched {
    /// The address.
    pub email: EmailAddress,
    /// The name to show.
    pub name: String,
    /// The role in the org.
    pub role: Role,
}

/// What the claims of a provider are worth: a person with a role, or why there is none.
///
/// # Errors
/// The address is not verified or not in a proved domain, or no group of the person has a role.
pub fn vouch(
    claims: &Claims,
    mapping: &[GroupRole],
    domains: &[ProviderDomain],
) -> Result<Vouched, IdentityEnd> {
    let email: EmailAddress = claims
        .email
        .as_deref()
        .filter(|_| claims.email_verified)
        .and_then(|email| email.parse().ok())
        .filter(|email| is_proved(email, domains))
        .ok_or(IdentityEnd::NoAddress)?;
    let role = role_of(mapping, &claims.groups).ok_or(IdentityEnd::NoRole)?;
    let given = claims.name.as_deref().map(str::trim).filter(|name| check_name(name).is_ok());
    let local = email.as_str().split('@').next().unwrap_or_default();
    let name = given.unwrap_or(local).to_owned();
    Ok(Vouched { email, name, role })
}

/// The domain of an address, if it can be one of a provider.
#[must_use]
pub fn domain_of(email: &EmailAddress) -> Option<Host> {
    email.as_str().rsplit_once('@').and_then(|(_, host)| host.parse().ok())
}

/// Exactly the domain: whoever has `example.com` need not have `mail.example.com`.
fn is_proved(email: &EmailAddress, domains: &[ProviderDomain]) -> bool {
    let host = domain_of(email);
    domains.iter().any(|domain| domain.verified_at.is_some() && Some(&domain.host) == host.as_ref())
}
