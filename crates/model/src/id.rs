//! Typed ids: a UUIDv7 inside, printed with a prefix (`svc_01h455vb4pex5vsknk084sn02q`).
//!
//! The prefix shows what a pasted id refers to, and the type makes the compiler reject a project's
//! id where a service's is expected. The text has the TypeID format: prefix, underscore, 26
//! characters of Crockford base32.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// The type of object an id refers to. The implementors are the registry of prefixes: append only.
pub trait Noun: 'static {
    /// The text before the underscore.
    const PREFIX: &'static str;
    /// The prefix that sealed events may still have.
    const FORMER_PREFIX: Option<&'static str> = None;
}

/// Marker types, one per noun that has ids.
pub mod noun {
    use super::Noun;

    /// A tenant and billing account.
    #[derive(Debug)]
    pub enum Org {}
    /// A project: one namespace per cluster.
    #[derive(Debug)]
    pub enum Project {}
    /// An instance of a template.
    #[derive(Debug)]
    pub enum Service {}
    /// One accepted generation of a service.
    #[derive(Debug)]
    pub enum Release {}
    /// A Kubernetes cluster.
    #[derive(Debug)]
    pub enum Cluster {}
    /// A recorded fact.
    #[derive(Debug)]
    pub enum Event {}
    /// An API token.
    #[derive(Debug)]
    pub enum Token {}
    /// A node port that routes to a service.
    #[derive(Debug)]
    pub enum Endpoint {}
    /// A recorded state change of a pod, a disk or a node.
    #[derive(Debug)]
    pub enum Transition {}
    /// A host name that routes to a service.
    #[derive(Debug)]
    pub enum Domain {}
    /// A labelled object without a record.
    #[derive(Debug)]
    pub enum Finding {}
    /// A request for an exact preview of a change.
    #[derive(Debug)]
    pub enum PreviewRequest {}
    /// A difference between a cluster and its desired state.
    #[derive(Debug)]
    pub enum Divergence {}
    /// A field that two writers fight over.
    #[derive(Debug)]
    pub enum Conflict {}
    /// An immutable, dated price.
    #[derive(Debug)]
    pub enum PriceVersion {}
    /// A discount of one org.
    #[derive(Debug)]
    pub enum Discount {}
    /// The usage of one object during one span.
    #[derive(Debug)]
    pub enum Interval {}
    /// An invoice or a credit note.
    #[derive(Debug)]
    pub enum Invoice {}
    /// An amount that an org was granted.
    #[derive(Debug)]
    pub enum Credit {}
    /// What an org subscribed to, from one change to the next.
    #[derive(Debug)]
    pub enum Subscription {}
    /// A person with an account.
    #[derive(Debug)]
    pub enum User {}
    /// One sign-in.
    #[derive(Debug)]
    pub enum Session {}
    /// The role of a user in an org.
    #[derive(Debug)]
    pub enum Membership {}
    /// A single-use offer of a membership.
    #[derive(Debug)]
    pub enum Invitation {}
    /// An identity provider of an org.
    #[derive(Debug)]
    pub enum Provider {}
    /// What a provider says about one person.
    #[derive(Debug)]
    pub enum Identity {}

    impl Noun for Org {
        const PREFIX: &'static str = "org";
    }
    impl Noun for Project {
        const PREFIX: &'static str = "prj";
    }
    impl Noun for Service {
        const PREFIX: &'static str = "svc";
    }
    impl Noun for Release {
        const PREFIX: &'static str = "rel";
    }
    impl Noun for Cluster {
        const PREFIX: &'static str = "cls";
    }
    impl Noun for Event {
        const PREFIX: &'static str = "evt";
    }
    impl Noun for Token {
        const PREFIX: &'static str = "tok";
    }
    impl Noun for Endpoint {
        const PREFIX: &'static str = "ept";
    }
    impl Noun for Transition {
        const PREFIX: &'static str = "trn";
    }
    impl Noun for Domain {
        const PREFIX: &'static str = "dom";
    }
    impl Noun for Finding {
        const PREFIX: &'static str = "fnd";
    }
    impl Noun for PreviewRequest {
        const PREFIX: &'static str = "pvr";
        const FORMER_PREFIX: Option<&'static str> = Some("plr");
    }
    impl Noun for Divergence {
        const PREFIX: &'static str = "dvg";
    }
    impl Noun for Conflict {
        const PREFIX: &'static str = "cft";
    }
    impl Noun for PriceVersion {
        const PREFIX: &'static str = "prc";
    }
    impl Noun for Discount {
        const PREFIX: &'static str = "dsc";
    }
    impl Noun for Interval {
        const PREFIX: &'static str = "ivl";
    }
    impl Noun for Invoice {
        const PREFIX: &'static str = "inv";
    }
    impl Noun for Credit {
        const PREFIX: &'static str = "crd";
    }
    impl Noun for Subscription {
        const PREFIX: &'static str = "sub";
    }
    impl Noun for User {
        const PREFIX: &'static str = "usr";
    }
    impl Noun for Session {
        const PREFIX: &'static str = "ses";
    }
    impl Noun for Membership {
        const PREFIX: &'static str = "mbr";
    }
    impl Noun for Invitation {
        const PREFIX: &'static str = "ivt";
    }
    impl Noun for Provider {
        const PREFIX: &'static str = "idp";
    }
    impl Noun for Identity {
        const PREFIX: &'static str = "idn";
    }
}

/// The id of an org.
pub type OrgId = Id<noun::Org>;
/// The id of a project.
pub type ProjectId = Id<noun::Project>;
/// The id of a service.
pub type ServiceId = Id<noun::Service>;
/// The id of a release.
pub type ReleaseId = Id<noun::Release>;
/// The id of a cluster.
pub type ClusterId = Id<noun::Cluster>;
/// The id of an event.
pub type EventId = Id<noun::Event>;
/// The id of a finding.
pub type FindingId = Id<noun::Finding>;
/// The id of a preview request.
pub type PreviewRequestId = Id<noun::PreviewRequest>;
/// The id of an API token.
pub type TokenId = Id<noun::Token>;
/// The id of an endpoint.
pub type EndpointId = Id<noun::Endpoint>;
/// The id of a transition.
pub type TransitionId = Id<noun::Transition>;
/// The id of a domain.
pub type DomainId = Id<noun::Domain>;
/// The id of a divergence.
pub type DivergenceId = Id<noun::Divergence>;
/// The id of a conflict.
pub type ConflictId = Id<noun::Conflict>;
/// The id of a price version.
pub type PriceVersionId = Id<noun::PriceVersion>;
/// The id of a discount.
pub type DiscountId = Id<noun::Discount>;
/// The id of a usage interval.
pub type IntervalId = Id<noun::Interval>;
/// The id of an invoice.
pub type InvoiceId = Id<noun::Invoice>;
/// The id of a credit.
pub type CreditId = Id<noun::Credit>;
/// The id of a subscription.
pub type SubscriptionId = Id<noun::Subscription>;
/// The id of a user.
pub type UserId = Id<noun::User>;
/// The id of a session.
pub type SessionId = Id<noun::Session>;
/// The id of a membership.
pub type MembershipId = Id<noun::Membership>;
/// The id of an invitation.
pub type InvitationId = Id<noun::Invitation>;
/// The id of an identity provider.
pub type ProviderId = Id<noun::Provider>;
/// The id of an identity.
pub type IdentityId = Id<noun::Identity>;

/// A typed id.
pub struct Id<N>(Uuid, PhantomData<fn() -> N>);

/// Why a text is not an id of the expected type.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ParseIdError {
    /// Another prefix, or none.
    #[error("must be an id that starts with `{wanted}_`")]
    Prefix {
        /// The expected prefix.
        wanted: &'static str,
    },
    /// The part after the prefix is not 26 characters of lower-case base32.
    #[error("invalid id: `{prefix}_` must be followed by 26 characters of 0-9 and a-z")]
    Suffix {
        /// The prefix that did match.
        prefix: &'static str,
    },
}

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const SUFFIX_LEN: usize = 26;

impl<N: Noun> Id<N> {
    /// A UUIDv7 from a time and ten random bytes. Both are inputs, so that tests can seed them.
    #[must_use]
    pub fn from_parts(now: Timestamp, entropy: [u8; 10]) -> Self {
        let millis = u64::try_from(now.as_millisecond()).unwrap_or(0);
        let uuid = uuid::Builder::from_unix_timestamp_millis(millis, &entropy).into_uuid();
        Self(uuid, PhantomData)
    }

    /// The id that wraps this UUID, as read from the database.
    #[must_use]
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid, PhantomData)
    }

    /// The UUID inside, as written to the database.
    #[must_use]
    pub const fn uuid(self) -> Uuid {
        self.0
    }

    /// The last characters of the printed id: random enough to distinguish two objects of one slug.
    #[must_use]
    pub fn tail(self, len: usize) -> String {
        let text = encode(self.0.as_u128());
        text[SUFFIX_LEN.saturating_sub(len)..].to_owned()
    }
}

fn encode(mut value: u128) -> String {
    let mut chars = [b'0'; SUFFIX_LEN];
    for slot in chars.iter_mut().rev() {
        let digit = usize::try_from(value & 31).unwrap_or(0);
        *slot = ALPHABET[digit];
        value >>= 5;
    }
    chars.iter().map(|c| char::from(*c)).collect()
}

fn decode(text: &str) -> Option<u128> {
    if text.len() != SUFFIX_LEN {
        return None;
    }
    text.bytes().enumerate().try_fold(0_u128, |value, (index, byte)| {
        let digit = ALPHABET.iter().position(|c| *c == byte)?;
        // 26 × 5 = 130 bits: the first character may only carry three.
        if index == 0 && digit > 7 {
            return None;
        }
        Some((value << 5) | u128::try_from(digit).ok()?)
    })
}

impl<N: Noun> fmt::Display for Id<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", N::PREFIX, encode(self.0.as_u128()))
    }
}

impl<N: Noun> fmt::Debug for Id<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<N: Noun> FromStr for Id<N> {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let suffix = text
            .strip_prefix(N::PREFIX)
            .or_else(|| N::FORMER_PREFIX.and_then(|former| text.strip_prefix(former)))
            .and_then(|rest| rest.strip_prefix('_'))
            .ok_or(ParseIdError::Prefix { wanted: N::PREFIX })?;
        let value = decode(suffix).ok_or(ParseIdError::Suffix { prefix: N::PREFIX })?;
        Ok(Self(Uuid::from_u128(value), PhantomData))
    }
}

impl<N> Clone for Id<N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<N> Copy for Id<N> {}
impl<N> PartialEq for Id<N> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<N> Eq for Id<N> {}
impl<N> PartialOrd for Id<N> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<N> Ord for Id<N> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}
impl<N> std::hash::Hash for Id<N> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<N: Noun> Serialize for Id<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, N: Noun> Deserialize<'de> for Id<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_prints_with_prefix_and_parses_back() {
        let id = ServiceId::from_uuid(Uuid::from_u128(0x0188_6f5a_1234_7abc_8def_0123_4567_89ab));
        let text = id.to_string();
        assert!(text.starts_with("svc_"), "{text}");
        assert_eq!(text.len(), 4 + SUFFIX_LEN);
        assert_eq!(text.parse::<ServiceId>(), Ok(id));
    }

    #[test]
    fn encoding_matches_the_type_id_specification_example() {
        let uuid = Uuid::parse_str("01890a5d-ac96-774b-bcce-b302099a8057").unwrap();
        assert_eq!(encode(uuid.as_u128()), "01h455vb4pex5vsknk084sn02q");
    }

    #[test]
    fn wrong_prefix_and_invalid_suffix_are_different_errors() {
        let project = ProjectId::from_uuid(Uuid::from_u128(1)).to_string();
        assert_eq!(project.parse::<ServiceId>(), Err(ParseIdError::Prefix { wanted: "svc" }));
        for broken in
            ["svc_", "svc_zz", "svc_8zzzzzzzzzzzzzzzzzzzzzzzzz", "svc_0123456789ABCDEFGHJKMNPQRS"]
        {
            assert_eq!(broken.parse::<ServiceId>(), Err(ParseIdError::Suffix { prefix: "svc" }));
        }
    }

    #[test]
    fn later_ids_sort_after_earlier_ids() {
        let early = ServiceId::from_parts(Timestamp::from_second(1_000).unwrap(), [255; 10]);
        let late = ServiceId::from_parts(Timestamp::from_second(1_001).unwrap(), [0; 10]);
        assert!(early < late);
        assert!(early.to_string() < late.to_string());
    }
}
