//! One divergence as it is stored, and how it changes. No I/O.
//!
//! A divergence has two ends. It is *gone* once the cluster has the desired value again, and it has
//! *ended* once nothing is left to decide. Mostly that is the same moment, but a proposal may wait
//! although its value was reverted, and a rejected value stays until the executor has reverted it.

use jiff::Timestamp;
use trueup_model::drift::{Divergence, DivergenceState, PROPOSAL_LIFETIME, Verdict};
use trueup_model::event::{DriftEnded, DriftProposed, Fact};
use trueup_model::id::DivergenceId;
use trueup_model::money::Money;

use crate::db::new_id::new_id;

/// A stored divergence, or one to be stored.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) id: DivergenceId,
    pub(super) divergence: Divergence,
    /// The generation that it was last seen with.
    pub(super) generation: i64,
    pub(super) first_seen_at: Timestamp,
    pub(super) last_seen_at: Timestamp,
    pub(super) gone_at: Option<Timestamp>,
    pub(super) ended_at: Option<Timestamp>,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) hourly: Option<Money>,
    pub(super) change: Change,
}

/// What has to be written of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    Update,
    Insert,
}

/// A divergence in a report, with its price and the generation of the report.
pub(super) struct Sight<'a> {
    pub(super) seen: &'a Divergence,
    pub(super) generation: i64,
    pub(super) hourly: Option<Money>,
    pub(super) now: Timestamp,
}

impl Entry {
    /// An entry for something that is seen for the first time.
    pub(super) fn first(sight: &Sight<'_>) -> Self {
        Self {
            id: new_id(sight.now),
            divergence: sight.seen.clone(),
            generation: sight.generation,
            first_seen_at: sight.now,
            last_seen_at: sight.now,
            gone_at: None,
            ended_at: None,
            expires_at: None,
            hourly: sight.hourly,
            change: Change::Insert,
        }
    }

    /// Whether it may still change.
    pub(super) const fn is_unsettled(&self) -> bool {
        self.ended_at.is_none() || self.gone_at.is_none()
    }

    /// Whether it is about the same field.
    pub(super) fn is_about(&self, seen: &Divergence) -> bool {
        self.divergence.key == seen.key && self.divergence.field == seen.field
    }

    /// Whether its value was reverted, and a person may still adopt it.
    pub(super) fn is_reverted_proposal(&self) -> bool {
        self.divergence.state == DivergenceState::Proposed && self.gone_at.is_some()
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        self.divergence.state == DivergenceState::Proposed
            && self.expires_at.is_some_and(|at| at <= now)
    }

    /// Its value was reverted. Returns the fact if it is proposed for adoption by that.
    pub(super) fn revert(&mut self, sight: &Sight<'_>) -> Option<Fact> {
        let now = sight.now;
        if self.ended_at.is_some() {
            // A decision against the value is carried out.
            self.go(now);
            return None;
        }
        let proposes = sight.seen.verdict == Verdict::Adopt;
        let fact = if self.is_expired(now) {
            self.see(sight);
            self.end_as(DivergenceState::Expired, now);
            None
        } else if !proposes {
            self.see(sight);
            self.end_as(DivergenceState::Reverted, now);
            None
        } else {
            let is_new = self.divergence.state != DivergenceState::Proposed;
            self.see(sight);
            is_new.then(|| self.propose(now))
        };
        self.go(now);
        fact
    }

    /// It stands. Returns the fact if it is proposed for adoption now.
    pub(super) fn stand(&mut self, sight: &Sight<'_>) -> Option<Fact> {
        let (state, now) = (sight.seen.state, sight.now);
        // Either a decision against it is still to be carried out, or a value that was proposed and
        // reverted came back, and will be reverted again.
        let will_go = self.is_reverted_proposal() && state == DivergenceState::Open;
        if self.ended_at.is_some() || will_go {
            self.touch(now);
            return None;
        }
        let expired = self.is_expired(now);
        let was_proposed = self.divergence.state == DivergenceState::Proposed;
        self.see(sight);
        self.gone_at = None;
        if expired && state == DivergenceState::Open {
            // It was given up, and is still to be reverted.
            self.end_as(DivergenceState::Expired, now);
            return None;
        }
        if state == DivergenceState::Proposed {
            return (!was_proposed).then(|| self.propose(now));
        }
        self.divergence.state = state;
        self.expires_at = None;
        None
    }

    /// Makes it a proposal.
    pub(super) fn propose(&mut self, now: Timestamp) -> Fact {
        let expires_at = now.checked_add(PROPOSAL_LIFETIME).unwrap_or(Timestamp::MAX);
        self.divergence.state = DivergenceState::Proposed;
        self.expires_at = Some(expires_at);
        self.mark_changed();
        Fact::DriftProposed(DriftProposed {
            divergence: self.id,
            key: self.divergence.key.clone(),
            field: self.divergence.field.clone(),
            expires_at,
        })
    }

    /// Nothing is left to decide. The difference may still be there.
    pub(super) fn end_as(&mut self, state: DivergenceState, now: Timestamp) {
        self.divergence.state = state;
        self.ended_at = Some(now);
        self.mark_changed();
    }

    /// The difference is not there any more.
    pub(super) fn go(&mut self, now: Timestamp) {
        self.gone_at.get_or_insert(now);
        self.mark_changed();
    }

    /// The fact that it ended without a write of Trueup.
    pub(super) fn ended_fact(&self) -> Fact {
        Fact::DriftEnded(DriftEnded {
            key: self.divergence.key.clone(),
            field: self.divergence.field.clone(),
            class: self.divergence.class,
        })
    }

    /// Takes over what was seen; the state stays.
    pub(super) fn see(&mut self, sight: &Sight<'_>) {
        let state = self.divergence.state;
        self.divergence = Divergence { state, ..sight.seen.clone() };
        self.generation = sight.generation;
        self.hourly = sight.hourly;
        self.touch(sight.now);
    }

    fn touch(&mut self, now: Timestamp) {
        self.last_seen_at = now;
        self.mark_changed();
    }

    fn mark_changed(&mut self) {
        if self.change == Change::Nothing {
            self.change = Change::Update;
        }
    }
}
