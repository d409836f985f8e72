//! The chain over an org's events: each event's hash covers the event and the hash before it.
//!
//! Whoever changes, removes, adds or moves an event changes every hash after it. Whoever noted one
//! hash can later prove that everything up to it is as it was. What is hashed is what a reader is
//! shown, in a form without ambiguity, so anybody can compute it again from the API alone.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};
use trueup_model::OrgId;

/// Names what is hashed and how. Another way to hash would have another name.
const FORMAT: &str = "trueup event 1";

/// The hash of an event and, through the one before it, of everything before it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hash([u8; 32]);

impl Hash {
    /// What stands before the first event.
    pub const START: Self = Self([0; 32]);

    /// The hash in these bytes, if there are as many as a hash has.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// As it is stored.
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

/// Why a text is no hash.
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

/// An event as a reader is shown it.
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
    /// The generation it speaks of.
    pub generation: i64,
    /// When it happened. Hashed to the microsecond, which is what the database keeps.
    pub time: Timestamp,
    /// The trace it belongs to.
    pub trace: Option<&'a str>,
    /// The id of the event that caused it.
    pub cause: Option<&'a str>,
    /// The fact.
    pub data: &'a Value,
}

/// The hash of the event at this place.
///
/// SHA-256 over netstrings (`5:hello,`), so that no field can pass for a part of another; what is
/// absent is `-,`, which no netstring begins with.
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

/// JSON with its keys in byte order and without spaces: the same value is always the same text.
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

/// Where a chain stopped being what it was, and how that shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    /// The first position that cannot be believed.
    pub position: i64,
    /// What is wrong there.
    pub why: String,
}

/// Follows a chain from its start, event by event.
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

    /// How far it came.
    #[must_use]
    pub const fn position(&self) -> i64 {
        self.position
    }

    /// The hash there.
    #[must_use]
    pub const fn head(&self) -> Hash {
        self.head
    }

    /// Takes the next event, as it was shown.
    ///
    /// # Errors
    /// It is not the next one, or not what was sealed there.
    pub fn step(&mut self, position: i64, shown: &str, event: &Content<'_>) -> Result<(), Break> {
        let next = self.position.saturating_add(1);
        if position != next {
            let why = if position > next {
                format!("it is missing: the next one there is has position {position}")
            } else {
                format!("position {position} comes again where it should stand")
            };
            return Err(Break { position: next, why });
        }
        let expected = link(&self.head, self.org, next, event);
        if shown != expected.to_string() {
            let why = "its hash is not the one of what stands there: this event, or one before it, \
                       was changed, moved or removed";
            return Err(Break { position: next, why: why.to_owned() });
        }
        (self.head, self.position) = (expected, next);
        Ok(())
    }
}
