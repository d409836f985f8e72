//! Usage: what was delivered, from when until when, and who observed it.
//!
//! Usage is derived from observations, never from what was requested. A meter is a measured
//! quantity. An interval is how much of it one object used in a half-open span. A gap is a time in
//! which an object was not observed: a row with a policy, never a zero.

mod meter;
mod record;
mod span;

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::id::{OrgId, ProjectId, ServiceId, TransitionId};
use crate::name::Name;
use crate::transition::Size;

pub use meter::{Meter, Source};
pub use record::UsageRecord;
pub use span::{MICROS, Quantity, Span};

/// Whose usage it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// The org; the platform for objects without a service.
    pub org: OrgId,
    /// The project, if there is one.
    pub project: Option<ProjectId>,
    /// The service; none for orphans.
    pub service: Option<ServiceId>,
}

/// One observation: who made it and when.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Evidence {
    /// When it was made.
    pub seen_at: Timestamp,
    /// The epoch of the lease at that time.
    pub epoch: i64,
    /// The observer.
    pub observer: String,
    /// The transition; none if it is the last contact of a watch.
    pub transition: Option<TransitionId>,
}

/// The observations that an interval begins and ends with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The first one.
    pub first: Evidence,
    /// The last one.
    pub last: Evidence,
}

/// What is unusual about the evidence of an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize)]
pub struct Flags {
    /// Its beginning or end was observed long after it happened.
    pub late: bool,
    /// A timestamp was impossible and was corrected.
    pub skewed: bool,
}

/// Whether used capacity was delivered to its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, ToSchema, Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[schema(as = UsageDelivery)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Delivery {
    /// It was, and is charged.
    Delivered,
    /// Its node was lost. The owner does not pay.
    UnderDelivered,
    /// It has no owner. The provider bears the cost.
    Orphan,
}

/// Why capacity was used and not sold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, ToSchema, Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Unsold {
    /// It had no owner.
    Orphan,
    /// It may have been used, unobserved.
    Gap,
    /// It was on a lost node.
    UnderDelivered,
}

/// What the quantity of an interval is based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, ToSchema, Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[schema(as = UsageBasis)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Basis {
    /// Observations.
    Observed,
    /// A gap, filled with the last known quantity.
    LastKnown,
    /// A gap, filled up to its middle.
    Estimated,
}

/// What a gap costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, ToSchema, Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum GapPolicy {
    /// Nothing.
    #[default]
    Free,
    /// As if the object had existed unchanged until the end of the gap.
    LastKnown,
    /// As if the object had ended in the middle of the gap.
    Estimate,
}

/// The usage of one meter by one object during one span, with one configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "three independent facts, as columns of a row")]
pub struct UsageInterval {
    /// Whose it is.
    pub owner: Owner,
    /// The uid of the object.
    pub object: String,
    /// The meter.
    pub meter: Meter,
    /// The plan in force, if the service has one.
    pub plan: Option<Name>,
    /// How much.
    pub quantity: Quantity,
    /// When.
    pub span: Span,
    /// Whether later evidence may still extend it. A closed interval never changes.
    pub open: bool,
    /// Whether every contact with its sources extends it. An open interval that does not grow waits
    /// for something, such as the next run of a crash loop.
    pub growing: bool,
    /// Whether it was delivered.
    pub delivery: Delivery,
    /// What the quantity is based on.
    pub basis: Basis,
    /// Whether it ran on a simulated node, where nothing really runs.
    pub simulated: bool,
    /// The observations it is derived from.
    pub provenance: Provenance,
    /// What is unusual about them.
    pub flags: Flags,
}

/// A time in which an object may have existed, and was not observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Whose object it is.
    pub owner: Owner,
    /// The uid of the object.
    pub object: String,
    /// The source that was silent.
    pub source: Source,
    /// From the last contact until the end of the object was observed.
    pub span: Span,
    /// What it costs.
    pub policy: GapPolicy,
    /// The plan before the gap.
    pub plan: Option<Name>,
    /// The size before the gap.
    pub last_known: Size,
    /// Whether the object was delivered before the gap.
    pub delivery: Delivery,
    /// Whether the object was on a simulated node.
    pub simulated: bool,
    /// The observation that ended the gap.
    pub evidence: Evidence,
}

/// A SHA-256 over what an interval, a line or a ledger entry says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EvidenceHash([u8; 32]);

impl EvidenceHash {
    /// The hash with these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

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

impl fmt::Display for EvidenceHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for EvidenceHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
