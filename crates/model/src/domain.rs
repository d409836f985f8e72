//! A domain: a host name of the world's that leads to a service, once it is proved to be the org's.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{DomainId, ServiceId};

/// A host name as DNS writes it: lower case, with a dot in it, without one at the end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Host(String);

/// Why a text is not a host name that a domain can have. The message says what would be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseHostError(&'static str);

/// Names that mean something inside of a cluster, a machine or DNS itself, and are nobody's.
const RESERVED: [&str; 8] =
    ["arpa", "internal", "invalid", "local", "localhost", "onion", "svc", "trueup.dev"];

impl Host {
    /// The longest a name can be.
    pub const LONGEST: usize = 253;

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where DNS must say whose it is.
    #[must_use]
    pub fn challenge(&self) -> String {
        format!("_trueup.{}", self.0)
    }
}

impl FromStr for Host {
    type Err = ParseHostError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains('*') {
            return Err(ParseHostError("must be one name: a wildcard would take names of others"));
        }
        if !text.is_ascii() {
            return Err(ParseHostError(
                "must be written as DNS has it, such as xn--bcher-kva.example",
            ));
        }
        if text.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(ParseHostError("must be in lower case"));
        }
        if text.len() > Self::LONGEST || !text.split('.').all(is_label) {
            return Err(ParseHostError(
                "must be a host name, such as www.example.org: labels of a-z, 0-9 and '-', with dots",
            ));
        }
        let Some((_, last)) = text.rsplit_once('.') else {
            return Err(ParseHostError("must have a dot in it, such as www.example.org"));
        };
        if last.bytes().all(|b| b.is_ascii_digit()) {
            return Err(ParseHostError("must be a name and not an address"));
        }
        let within = |suffix: &&str| {
            text.strip_suffix(*suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        if RESERVED.iter().any(within) {
            return Err(ParseHostError(
                "must not end with a name that is reserved, such as .local",
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

/// One part of a name. `--` in the third place is for punycode alone.
fn is_label(label: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = label.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|b| plain(*b) || *b == b'-')
        && bytes.first().copied().is_some_and(plain)
        && bytes.last().copied().is_some_and(plain)
        && (bytes.get(2..4) != Some(b"--") || (label.starts_with("xn--") && bytes.len() > 4))
}

impl TryFrom<String> for Host {
    type Error = ParseHostError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Host> for String {
    fn from(host: Host) -> Self {
        host.0
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What somebody wishes for the connections to a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tls {
    /// A certificate that the cluster gets and renews, where it can.
    #[default]
    Auto,
    /// None: whatever stands before the cluster takes care of it.
    Off,
}

impl Tls {
    /// The text in the database and on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Off => "off",
        }
    }

    /// The wish of this name.
    #[must_use]
    pub fn find(text: &str) -> Option<Self> {
        [Self::Auto, Self::Off].into_iter().find(|tls| tls.as_str() == text)
    }
}

/// The part of a verified domain that an order carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Which domain.
    pub id: DomainId,
    /// Its host.
    pub host: Host,
    /// What is wished for its connections.
    pub tls: Tls,
}

/// Where a domain is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DomainState {
    /// Nobody has proved yet that the host is the org's: it leads nowhere.
    Unverified,
    /// Promised; the cluster was not seen to have it yet.
    Opening,
    /// The cluster was seen to have it.
    Open,
}

impl DomainState {
    /// The text on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unverified => "unverified",
            Self::Opening => "opening",
            Self::Open => "open",
        }
    }
}

/// What DNS said about a domain's proof when it did not prove it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DnsResult {
    /// There is certainly no TXT record.
    Nothing,
    /// There are TXT records, and none of them has the domain's text.
    OtherTexts,
    /// Nobody can tell: no answer, or none that says yes or no.
    Indeterminate,
}

impl DnsResult {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Nothing, Self::OtherTexts, Self::Indeterminate];

    /// The text in the database and on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::OtherTexts => "other_texts",
            Self::Indeterminate => "indeterminate",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn find(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|saw| saw.as_str() == text)
    }
}

/// One look into DNS that proved nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsCheck {
    /// When.
    pub at: Timestamp,
    /// What was seen.
    pub result: DnsResult,
    /// That in a few words, for people.
    pub why: String,
}

/// How far looking for a domain's proof has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// The last look that ended, if there was one.
    pub last: Option<DnsCheck>,
    /// When the next one is due; nothing where nobody looks until somebody asks.
    pub next_at: Option<Timestamp>,
    /// When the operator took the proof back: the domain's text proves nothing since.
    pub withdrawn_at: Option<Timestamp>,
}

/// A domain as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// Its id, which is also what DNS must say to prove it.
    pub id: DomainId,
    /// Its host.
    pub host: Host,
    /// Whose it is.
    pub service: ServiceId,
    /// What that is called.
    pub service_name: String,
    /// What is wished for its connections.
    pub tls: Tls,
    /// Where it is in its life.
    pub state: DomainState,
    /// When it was proved to be the org's, if it was.
    pub verified_at: Option<Timestamp>,
    /// How far looking for its proof has come.
    pub search: Search,
    /// Who asked for it.
    pub made_by: String,
    /// When.
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_of_the_world() {
        let long = format!("{}.example.org", "a".repeat(63));
        for good in
            ["example.org", "www.example.org", "xn--bcher-kva.example", "a.b.c.d", "1a.x1", &long]
        {
            assert_eq!(good.parse::<Host>().map(|host| host.to_string()), Ok(good.to_owned()));
        }
        let too_long = format!("{}example.org", "a.".repeat(125));
        let label = format!("{}.example.org", "a".repeat(64));
        for bad in [
            "",
            ".",
            "example",
            "example.org.",
            ".example.org",
            "a..b",
            "-a.org",
            "a-.org",
            "a_b.org",
            "*.example.org",
            "Example.org",
            "b\u{fc}cher.example",
            "10.0.0.1",
            "a b.org",
            "a.org/x",
            "a.org:80",
            "ab--c.org",
            "xn--.org",
            "a.local",
            "kubernetes.default.svc",
            "localhost",
            "db.internal",
            "a.trueup.dev",
            "a.org\n",
            "a.org\0",
            &too_long,
            &label,
        ] {
            assert!(bad.parse::<Host>().is_err(), "{bad:?}");
        }
        assert!("notlocal.org".parse::<Host>().is_ok() && "a.mylocal".parse::<Host>().is_ok());
    }
}
