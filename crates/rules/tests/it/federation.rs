//! What providers are accepted, and whom they may vouch for.

use jiff::Timestamp;
use trueup_model::domain::Host;
use trueup_model::id::DomainId;
use trueup_model::principal::Role;
use trueup_model::provider::{Claims, GroupRole, IdentityEnd, ProviderDomain, ProviderSpec};
use trueup_rules::federation::{check, role_of, vouch};

fn spec() -> ProviderSpec {
    ProviderSpec {
        issuer: "https://id.example.com/realm".to_owned(),
        client_id: "trueup".to_owned(),
        domains: vec!["example.com".parse().unwrap()],
        groups_claim: "groups".to_owned(),
        groups: mapping(),
        enabled: true,
        outage_minutes: 60,
    }
}

fn mapping() -> Vec<GroupRole> {
    let role = |group: &str, role| GroupRole { group: group.to_owned(), role };
    vec![role("ops", Role::Admin), role("dev", Role::Developer)]
}

fn claims() -> Claims {
    Claims {
        subject: "1".to_owned(),
        email: Some("Ada@Example.com".to_owned()),
        email_verified: true,
        name: Some("Ada Lovelace".to_owned()),
        groups: vec!["dev".to_owned()],
        refresh_token: None,
    }
}

fn proved(host: &str, verified: bool) -> ProviderDomain {
    let host: Host = host.parse().unwrap();
    let id = DomainId::from_parts(Timestamp::UNIX_EPOCH, [1; 10]);
    let verified_at = verified.then_some(Timestamp::UNIX_EPOCH);
    ProviderDomain { id, host, verified_at, last: None, next_at: None }
}

/// S45: an issuer is an address that the server requests.
#[test]
fn s45_issuer_is_https_or_this_machine_where_that_is_allowed() {
    let fields = |issuer: &str, allow_local| {
        let spec = ProviderSpec { issuer: issuer.to_owned(), ..spec() };
        check(&spec, allow_local).into_iter().map(|error| error.field).collect::<Vec<_>>()
    };
    for good in ["https://id.example.com", "https://id.example.com:8443/a/b/"] {
        assert!(fields(good, false).is_empty(), "{good}");
    }
    for local in ["http://127.0.0.1:4000", "http://localhost", "http://[::1]:1/x"] {
        assert_eq!(fields(local, false), ["issuer"], "{local}");
        assert!(fields(local, true).is_empty(), "{local}");
    }
    for bad in [
        "",
        "id.example.com",
        "https://",
        "https:///x",
        "http://id.example.com",
        "http://127.0.0.1.evil.example",
        "http://localhost@evil.example",
        "ftp://id.example.com",
        "file:///etc/passwd",
        "https://user@id.example.com",
        "https://id.example.com?x=1",
        "https://id.example.com#x",
        "https://id.example.com\r\nHost: x",
        "https://id.exämple.com",
    ] {
        assert_eq!(fields(bad, true), ["issuer"], "{bad}");
    }
}

#[test]
fn every_wrong_field_is_named_at_once() {
    let wrong = ProviderSpec {
        issuer: "x".to_owned(),
        client_id: String::new(),
        domains: Vec::new(),
        groups_claim: "a\nb".to_owned(),
        groups: vec![GroupRole { group: String::new(), role: Role::Operator }],
        enabled: true,
        outage_minutes: 4,
    };
    let fields: Vec<String> = check(&wrong, true).into_iter().map(|error| error.field).collect();
    assert_eq!(
        fields,
        [
            "issuer",
            "client_id",
            "groups_claim",
            "domains",
            "groups.0.group",
            "groups.0.role",
            "outage_minutes"
        ]
    );
    assert!(check(&spec(), false).is_empty());
}

#[test]
fn first_mapped_group_decides_and_a_star_is_everybody() {
    let groups = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(role_of(&mapping(), &groups(&["dev", "ops"])), Some(Role::Admin));
    assert_eq!(role_of(&mapping(), &groups(&["dev", "x"])), Some(Role::Developer));
    assert_eq!(role_of(&mapping(), &groups(&["Dev", "*"])), None);
    let mut all = mapping();
    all.push(GroupRole { group: "*".to_owned(), role: Role::Viewer });
    assert_eq!(role_of(&all, &[]), Some(Role::Viewer));
    assert_eq!(role_of(&all, &groups(&["ops"])), Some(Role::Admin));
}

#[test]
fn only_a_verified_address_in_a_proved_domain_counts() {
    let domains = [proved("example.com", true), proved("example.org", false)];
    let judge = |claims: &Claims| vouch(claims, &mapping(), &domains);
    let vouched = judge(&claims()).unwrap();
    assert_eq!((vouched.email.as_str(), vouched.role), ("ada@example.com", Role::Developer));
    assert_eq!(vouched.name, "Ada Lovelace");
    let with = |email: Option<&str>, email_verified| Claims {
        email: email.map(str::to_owned),
        email_verified,
        ..claims()
    };
    for (email, verified) in [
        (Some("ada@example.com"), false),
        (None, true),
        (Some("ada@example.org"), true),
        (Some("ada@mail.example.com"), true),
        (Some("ada@notexample.com"), true),
        (Some("ada@example.com@evil.example"), true),
        (Some("ada"), true),
    ] {
        assert_eq!(judge(&with(email, verified)), Err(IdentityEnd::NoAddress), "{email:?}");
    }
    let nobody = Claims { groups: vec!["other".to_owned()], ..claims() };
    assert_eq!(judge(&nobody), Err(IdentityEnd::NoRole));
    // A name that cannot be one is replaced, not refused.
    let named = Claims { name: Some("a\nb".to_owned()), ..claims() };
    assert_eq!(judge(&named).unwrap().name, "ada");
}
