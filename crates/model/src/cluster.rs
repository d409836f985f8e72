//! A Kubernetes cluster that Trueup looks after, and how well it can be seen.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::key::Kind;

/// Whether a cluster answers. Unreachable is not an error: it means Unknown and Deferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reachability {
    /// Every watch is fresh.
    Reachable,
    /// It was seen before and does not answer now, or was never seen.
    Unreachable,
}

/// When each kind was last heard of. Freshness belongs to the watch, not to the object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freshness {
    /// Last contact per kind; a kind that is missing was never listed.
    pub heard: BTreeMap<Kind, Timestamp>,
}

/// A watch that has been silent for longer than this proves nothing any more.
pub const STALE_AFTER_SECONDS: i64 = 45;

impl Freshness {
    /// The oldest last contact over all watched kinds, or nothing while one was never heard.
    #[must_use]
    pub fn oldest(&self) -> Option<Timestamp> {
        let complete = Kind::WATCHED.iter().all(|kind| self.heard.contains_key(kind));
        if complete { self.heard.values().min().copied() } else { None }
    }
}

/// Whether something last heard at `heard` still counts at `now`.
#[must_use]
pub fn is_stale(heard: Option<Timestamp>, now: Timestamp) -> bool {
    heard.is_none_or(|heard| now.duration_since(heard).as_secs() > STALE_AFTER_SECONDS)
}
