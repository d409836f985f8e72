//! A domain: a public host name that routes to a service once the org's ownership is verified.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::id::{DomainId, ServiceId};
use crate::observation::Sighting;

/// A host name in DNS form: lower case, with at least one dot, without a trailing dot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Host(String);

/// Why a text is not a valid host name for a domain; the message says what is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseHostError(&'static str);

/// Names with a special meaning in a cluster, on a machine or in DNS: no org can own them.
const RESERVED: [&str; 8] =
    ["arpa", "internal", "invalid", "local", "localhost", "onion", "svc", "trueup.dev"];

impl Host {
    /// The maximum length of a name.
    pub const LONGEST: usize = 253;

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The DNS name whose TXT record verifies the domain.
    #[must_use]
    pub fn challenge(&self) -> String {
        format!("_trueup.{}", self.0)
    }
}

impl FromStr for Host {
    type Err = ParseHostError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains('*') {
            return Err(ParseHostError("must be a single name; wildcards are not supported"));
        }
        if !text.is_ascii() {
            return Err(ParseHostError(
                "must be in ASCII (punycode) form, such as xn--bcher-kva.example",
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
            return Err(ParseHostError("must contain a dot, such as www.example.org"));
        };
        if last.bytes().all(|b| b.is_ascii_digit()) {
            return Err(ParseHostError("must be a name, not an IP address"));
        }
        let within = |suffix: &&str| {
            text.strip_suffix(*suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        if RESERVED.iter().any(within) {
            return Err(ParseHostError("must not end with a reserved name, such as .local"));
        }
        Ok(Self(text.to_owned()))
    }
}

/// Whether this is a valid label. Only punycode may have `--` in the third and fourth place.
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

/// How TLS is set up for a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[schema(as = TlsMode)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Tls {
    /// A certificate that the cluster obtains and renews, where it can.
    #[default]
    Auto,
    /// None: TLS is terminated in front of the cluster, or not used.
    Off,
}

/// The part of a verified domain that an order carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The domain.
    pub id: DomainId,
    /// Its host.
    pub host: Host,
    /// How its TLS is set up.
    pub tls: Tls,
}

/// The state of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum DomainState {
    /// The org's ownership of the host is not verified: nothing is routed.
    Unverified,
    /// Verified; its object does not exist in the cluster yet.
    Pending,
    /// Its object exists; no controller has reported that it routes the host.
    Opening,
    /// A controller reports that it routes the host.
    Open,
    /// A controller does not route the host; the message says why.
    Refused,
}

/// The state of a host's certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum CertificateState {
    /// The cluster keeps no certificate for the host.
    #[default]
    None,
    /// It is being obtained.
    Issuing,
    /// It is valid.
    Ready,
    /// It is valid for less than 14 days, so its renewal is late.
    Expiring,
    /// It could not be obtained, or it has expired; the message says why.
    Failing,
}

/// The result of a DNS check that did not verify the domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[schema(as = DnsCheckResult)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum DnsResult {
    /// DNS answered that there is no TXT record.
    Nothing,
    /// There are TXT records, and none has the domain's text.
    OtherTexts,
    /// There was no answer, or no conclusive one.
    Indeterminate,
}

impl DnsResult {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Nothing, Self::OtherTexts, Self::Indeterminate];
}

/// One DNS check that did not verify the domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsCheck {
    /// When it was made.
    pub at: Timestamp,
    /// Its result.
    pub result: DnsResult,
    /// The result in one sentence.
    pub why: String,
}

/// The progress of a domain's verification by DNS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// The last completed check, if any.
    pub last: Option<DnsCheck>,
    /// When the next check is due; none if checks have stopped until one is requested.
    pub next_at: Option<Timestamp>,
    /// When an operator withdrew the verification: the TXT record no longer verifies the domain.
    pub withdrawn_at: Option<Timestamp>,
}

/// A domain with its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// Its id, which is also the text that its TXT record must have.
    pub id: DomainId,
    /// Its host.
    pub host: Host,
    /// The service it routes to.
    pub service: ServiceId,
    /// The service's name.
    pub service_name: String,
    /// How its TLS is set up.
    pub tls: Tls,
    /// Its state.
    pub state: DomainState,
    /// The Ingress or HTTPRoute of its host, as last observed.
    pub route: Option<Sighting>,
    /// The Certificate of its host, as last observed.
    pub certificate: Option<Sighting>,
    /// When the org's ownership was verified, if it was.
    pub verified_at: Option<Timestamp>,
    /// The progress of its verification.
    pub search: Search,
    /// Who added it.
    pub made_by: String,
    /// When it was added.
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_host_names_are_valid() {
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
