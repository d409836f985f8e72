//! Drift: where a cluster differs from what Trueup wrote, and what is decided about it.
//!
//! A *divergence* is one such difference. A *verdict* says what happens to it: it is reverted
//! (enforce), made the desired state (adopt) or left alone (ignore). A *conflict* is a field that
//! was reverted or adopted too often: enforcement of that field stops until a person decides.

mod conflict;
mod divergence;
mod policy;

pub use conflict::{Conflict, ConflictDecision, Settlement};
pub use divergence::{Divergence, DivergenceClass, DivergenceRecord, DivergenceState};
pub use policy::{AdoptMode, DriftPolicy, DriftRule, Verdict};

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::key::ResourceKey;

/// So many reverts or adoptions of one field within [`FIGHT_WINDOW`] are a fight.
pub const FIGHT_ROUNDS: usize = 3;

/// See [`FIGHT_ROUNDS`].
pub const FIGHT_WINDOW: SignedDuration = SignedDuration::from_mins(10);

/// How long the next revert waits in a fight over something that is always enforced.
pub const FIGHT_PAUSE: SignedDuration = SignedDuration::from_secs(15);

/// How long a proposal to adopt a value waits for approval.
pub const PROPOSAL_LIFETIME: SignedDuration = SignedDuration::from_hours(24);

/// One field of one object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldRef {
    /// The object.
    pub key: ResourceKey,
    /// The path of the field; empty for the object itself.
    pub field: String,
}

impl fmt::Display for FieldRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, field } = self;
        if field.is_empty() { key.fmt(f) } else { write!(f, "{field} of {key}") }
    }
}

/// What an order says about drift.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DriftOrder {
    /// The policies of the service, its project and its template, in this order: the first one with
    /// an answer decides.
    pub policies: Vec<DriftPolicy>,
    /// Decisions about single fields. They come before the policies.
    pub fields: BTreeMap<FieldRef, FieldDecision>,
    /// When fields were reverted or adopted, within [`FIGHT_WINDOW`], oldest first.
    pub rounds: BTreeMap<FieldRef, Vec<Timestamp>>,
}

/// A decision about one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldDecision {
    /// A fight: the field is left alone until a person decides.
    InConflict,
    /// A proposal to adopt its value: it is kept until this time, and then reverted.
    Proposed {
        /// When the proposal expires.
        until: Timestamp,
    },
    /// A person decided to leave it alone.
    Ignore {
        /// Until when; none for ever.
        until: Option<Timestamp>,
    },
    /// A person decided to enforce it, whatever other writers do.
    Enforce {
        /// Until when fights are not counted; none for ever.
        until: Option<Timestamp>,
    },
}
