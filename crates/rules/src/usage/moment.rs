//! Moments: when something happened, by which evidence, and whether the timestamp can be true.

use jiff::{SignedDuration, Timestamp};
use trueup_model::cluster::STALE_AFTER_SECONDS;
use trueup_model::transition::Transition;
use trueup_model::usage::{Evidence, Flags};

/// Timestamps of Kubernetes have whole seconds and come from several clocks: a smaller difference
/// is not worth a flag.
const SKEW: SignedDuration = SignedDuration::from_secs(2);

/// A change that was observed later than this is late: no working watch takes so long.
const LATE: SignedDuration = SignedDuration::from_secs(STALE_AFTER_SECONDS);

/// A moment and its evidence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    pub(super) at: Timestamp,
    pub(super) evidence: Evidence,
    pub(super) flags: Flags,
}

impl Moment {
    /// When a change happened: by its timestamp, or when it was observed if it has none.
    ///
    /// Nothing happens before its object was created or after it was observed. A timestamp that
    /// says so comes from a wrong clock and is moved to that bound.
    pub(super) fn of(change: &Transition, created_at: Option<Timestamp>) -> Self {
        let stamped = change.at.unwrap_or(change.seen_at);
        let at = created_at.map_or(stamped, |created| stamped.max(created)).min(change.seen_at);
        let flags = Flags {
            late: change.seen_at.duration_since(at) > LATE,
            skewed: stamped.duration_since(at).abs() > SKEW,
        };
        Self { at, evidence: evidence(change), flags }
    }

    /// A moment that needs no timestamp of its own.
    pub(super) const fn by(at: Timestamp, evidence: Evidence) -> Self {
        Self { at, evidence, flags: Flags { late: false, skewed: false } }
    }
}

/// A transition as evidence.
pub(super) fn evidence(change: &Transition) -> Evidence {
    Evidence {
        seen_at: change.seen_at,
        epoch: change.epoch,
        observer: change.observer.clone(),
        transition: Some(change.id),
    }
}
