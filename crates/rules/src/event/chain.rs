//! The hash chain over an org's events: each hash covers the event and the hash before it.
//!
//! Changing, removing, adding or moving an event changes every hash after it, so a client that
//! noted one hash can verify everything up to it. The hash covers what the API shows, in an
//! unambiguous encoding, so that clients can compute it themselves.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};
use trueup_model::OrgId;

/// Version of the encoding; part of what is hashed.
const FORMAT: &str = "trueup event 1";

/// The hash of an event and, through the one before it, of everything before it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The hash before the first event.
    pub const START: Self = Self([0; 32]);

    /// The hash of these bytes, if there are 32.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The bytes, as stored.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a hash.
#[derive(Debug, PartialEq, Eq)]
pub struct ParseHashError;

impl fmt::Display for ParseHashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a hash is 64 characters of 0-9 and a-f")
    }
}

impl std::error::Error for ParseHashError {}

impl FromStr for Hash {
    type Err = ParseHashError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| ParseHashError)?;
        Self::from_bytes(&bytes).ok_or(ParseHashError)
    }
}

/// An event as shown to readers.
#[derive(Debug, Clone, Copy)]
pub struct Content<'a> {
    /// `evt_…`
    pub id: &'a str,
    /// `/trueup/user`, …
    pub source: &'a str,
    /// `dev.trueup.ServiceQueued.v1`, …
    pub kind: &'a str,
    /// `svc_…` or `prj_…`
    pub subject: &'a str,
    /// The generation it is about.
    pub generation: i64,
    /// When it happened. Hashed with microsecond precision, as stored.
    pub time: Timestamp,
    /// The trace it belongs to.
    pub trace: Option<&'a str>,
    /// The id of the event that caused it.
    pub cause: Option<&'a str>,
    /// The fact.
    pub data: &'a Value,
}

/// The hash of the event at this position.
///
/// SHA-256 over netstrings (`5:hello,`), so that fields cannot be confused; an absent field is
/// `-,`, which no netstring begins with.
#[must_use]
pub fn link(previous: &Hash, org: OrgId, position: i64, event: &Content<'_>) -> Hash {
    let mut text = String::new();
    let (org, position) = (org.to_string(), position.to_string());
    let (generation, time) =
        (event.generation.to_string(), event.time.as_microsecond().to_string());
    let mut data = String::new();
    canonical(event.data, &mut data);
    let previous = previous.to_string();
    for field in [
        Some(FORMAT),
        Some(&previous),
        Some(&org),
        Some(&position),
        Some(event.id),
        Some(event.source),
        Some(event.kind),
        Some(event.subject),
        Some(&generation),
        Some(&time),
        event.trace,
        event.cause,
        Some(&data),
    ] {
        match field {
            Some(field) => text.push_str(&format!("{}:{field},", field.len())),
            None => text.push_str("-,"),
        }
    }
    Hash(Sha256::digest(text.as_bytes()).into())
}

/// Canonical JSON: keys in byte order and no spaces.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| name.as_bytes());
            out.push('{');
            for (index, (name, field)) in fields.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                canonical(field, out);
            }
            out.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string());
        }
    }
}

/// Where verification of a chain failed, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    /// The first position that does not verify.
    pub position: i64,
    /// What is wrong there.
    pub why: String,
}

/// Verifies a chain from its start, event by event.
#[derive(Debug, Clone)]
pub struct Walk {
    org: OrgId,
    head: Hash,
    position: i64,
}

impl Walk {
    /// At the start of this org's chain.
    #[must_use]
    pub const fn new(org: OrgId) -> Self {
        Self { org, head: Hash::START, position: 0 }
    }

    /// The last verified position.
    #[must_use]
    pub const fn position(&self) -> i64 {
        self.position
    }

    /// The hash at that position.
    #[must_use]
    pub const fn head(&self) -> Hash {
        self.head
    }

    /// Verifies the next event, as shown.
    ///
    /// # Errors
    /// It is not the next one, or its hash does not match.
    pub fn step(&mut self, position: i64, shown: &str, event: &Content<'_>) -> Result<(), Break> {
        let next = self.position.saturating_add(1);
        if position != next {
            let why = if position > next {
                format!("the event is missing: the next event has position {position}")
            } else {
                format!("the event is missing: position {position} appears again instead")
            };
            return Err(Break { position: next, why });
        }
        let expected = link(&self.head, self.org, next, event);
        if shown != expected.to_string() {
            let why = "the hash does not match: this event or an earlier one was changed, moved or \
                       removed";
            return Err(Break { position: next, why: why.to_owned() });
        }
        (self.head, self.position) = (expected, next);
        Ok(())
    }
}
