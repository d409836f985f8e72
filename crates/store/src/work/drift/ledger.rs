//! The divergences of one unit, and what a report changes about them. No I/O.

use jiff::Timestamp;
use trueup_model::drift::{Divergence, DivergenceClass, DivergenceState, FieldRef, Verdict};
use trueup_model::event::Fact;

use super::entry::{Entry, Sight};
use crate::sold::Sold;

/// The divergences of a unit that may still change.
pub(super) struct Ledger<'a> {
    /// What is stored, and then what is new.
    pub(super) entries: Vec<Entry>,
    /// The facts about them that the report alone does not show.
    pub(super) facts: Vec<Fact>,
    /// The fields that are left alone because of a fight, each with the other writer.
    pub(super) fights: Vec<(FieldRef, Option<String>)>,
    /// What the unit is sold for.
    pub(super) sold: Option<&'a Sold>,
    /// The generation of the report.
    pub(super) generation: i64,
    /// Whether a newer generation was accepted meanwhile: it may explain what was seen.
    pub(super) outdated: bool,
    pub(super) now: Timestamp,
}

impl Ledger<'_> {
    /// A value was reverted.
    ///
    /// Under the verdict Adopt it is proposed. If it is proposed already, the proposal is about the
    /// newest value, and the revert has an entry of its own: each counts for fights.
    pub(super) fn revert(&mut self, seen: &Divergence) {
        let (sight, proposes) = (self.sight(seen), seen.verdict == Verdict::Adopt);
        let Some(entry) = self.entries.iter_mut().find(|entry| is_current(entry, seen)) else {
            return self.insert_reverted(&sight, proposes);
        };
        if entry.is_reverted_proposal() {
            if proposes {
                entry.see(&sight);
            }
            return self.insert_reverted(&sight, false);
        }
        let fact = entry.revert(&sight);
        self.facts.extend(fact);
    }

    fn insert_reverted(&mut self, sight: &Sight<'_>, proposes: bool) {
        let mut entry = Entry::first(sight);
        if proposes {
            self.facts.push(entry.propose(sight.now));
        } else {
            entry.end_as(DivergenceState::Reverted, sight.now);
        }
        entry.go(sight.now);
        self.entries.push(entry);
    }

    /// A difference stands at the end of the pass.
    pub(super) fn stand(&mut self, seen: &Divergence) {
        let sight = self.sight(seen);
        let current = self.entries.iter_mut().find(|entry| is_current(entry, seen));
        let fact = match current {
            Some(entry) => entry.stand(&sight),
            // The next pass says whether it stands for the newer generation, too.
            None if self.outdated => return,
            None => {
                let mut entry = Entry::first(&sight);
                let proposed = seen.state == DivergenceState::Proposed;
                let fact = proposed.then(|| entry.propose(sight.now));
                self.entries.push(entry);
                fact
            }
        };
        self.facts.extend(fact);
        if seen.state == DivergenceState::InConflict && !self.outdated {
            let at = FieldRef { key: seen.key.clone(), field: seen.field.clone() };
            self.fights.push((at, seen.by.clone()));
        }
    }

    /// The unit has converged: what does not stand is over, without a write of Trueup.
    pub(super) fn end_missing(&mut self, standing: &[Divergence]) {
        let missing = |entry: &&mut Entry| {
            entry.is_unsettled()
                && !entry.is_reverted_proposal()
                && !is_regression(entry)
                && !standing.iter().any(|seen| entry.is_about(seen))
        };
        for entry in self.entries.iter_mut().filter(missing) {
            if entry.ended_at.is_none() {
                // A new generation may want the value that was there.
                let state = if entry.generation == self.generation {
                    DivergenceState::Restored
                } else {
                    DivergenceState::Superseded
                };
                entry.end_as(state, self.now);
                self.facts.push(entry.ended_fact());
            }
            entry.go(self.now);
        }
    }

    /// Whether a regression stands.
    pub(super) fn has_regression(&self) -> bool {
        self.entries.iter().any(is_regression)
    }

    /// A regression ended like this.
    pub(super) fn end_regression(&mut self, state: DivergenceState) {
        let now = self.now;
        for entry in self.entries.iter_mut().filter(|entry| is_regression(entry)) {
            entry.end_as(state, now);
            entry.go(now);
            self.facts.push(entry.ended_fact());
        }
    }

    /// The unit was deleted: nothing is left to decide.
    pub(super) fn end_all(&mut self) {
        for entry in &mut self.entries {
            if entry.ended_at.is_none() {
                entry.end_as(DivergenceState::Superseded, self.now);
            }
            entry.go(self.now);
        }
    }

    fn sight<'s>(&self, seen: &'s Divergence) -> Sight<'s> {
        let hourly = self.sold.and_then(|sold| sold.hourly(seen));
        Sight { seen, generation: self.generation, hourly, now: self.now }
    }
}

fn is_current(entry: &Entry, seen: &Divergence) -> bool {
    entry.is_unsettled() && entry.is_about(seen)
}

fn is_regression(entry: &Entry) -> bool {
    entry.divergence.class == DivergenceClass::Regressed && entry.ended_at.is_none()
}
