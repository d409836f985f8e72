//! What the layer records during a run.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trueup_model::key::{Kind, ResourceKey};

use super::journal::Call;
use super::plan::Trigger;

/// The recorded calls, events and violations.
#[derive(Debug, Default, Clone)]
pub struct Notes {
    /// Every write that was sent.
    pub calls: Vec<Call>,
    /// The number of live reads of one object.
    pub gets: usize,
    /// The number of lists, by kind.
    pub lists: BTreeMap<Kind, usize>,
    /// The number of watch events, by kind.
    pub events: BTreeMap<Kind, usize>,
    /// How often each crash point was reached.
    pub points: BTreeMap<&'static str, usize>,
    /// Objects with a foreign edit: key and uid.
    pub foreign: BTreeSet<(ResourceKey, String)>,
    /// Fields that a foreign writer took over, as JSON pointers, by key and uid.
    pub taken: BTreeMap<(ResourceKey, String), &'static str>,
    /// Objects deleted by a foreign delete, including dependents.
    pub deleted: BTreeSet<ResourceKey>,
    /// Writes, reads and events in order, each with its step.
    pub order: Vec<(usize, Trigger)>,
    /// Violations found during the run.
    pub wrong: Vec<String>,
}

impl Notes {
    /// Whether this trigger was reached.
    #[must_use]
    pub fn reached(&self, at: &Trigger) -> bool {
        let (count, wanted) = match at {
            Trigger::Write(number) => (self.calls.len(), *number),
            Trigger::Get(number) => (self.gets, *number),
            Trigger::List(kind, number) => (count(&self.lists, kind), *number),
            Trigger::Event(kind, number) => (count(&self.events, kind), *number),
            Trigger::Point(point, number) => (count(&self.points, point.as_str()), *number),
        };
        count >= wanted
    }

    /// What came after this trigger in the same step.
    pub fn after<'a>(&'a self, at: &Trigger) -> impl Iterator<Item = &'a Trigger> + use<'a> {
        let place = self.order.iter().position(|(_, one)| one == at);
        let step = place.map(|place| self.order[place].0);
        let later = place.map_or(&[][..], |place| &self.order[place + 1..]);
        later.iter().filter(move |(one, _)| Some(*one) == step).map(|(_, one)| one)
    }

    /// The live reads that are followed directly by an effective write.
    pub fn reads_before_writes(&self) -> impl Iterator<Item = usize> {
        self.order.windows(2).filter_map(|two| match (&two[0].1, &two[1].1) {
            (Trigger::Get(number), write) if self.has_effect(write) => Some(*number),
            _ => None,
        })
    }

    /// The most writes that were sent at the same time.
    #[must_use]
    pub fn widest_round(&self) -> usize {
        let mut rounds: BTreeMap<Duration, usize> = BTreeMap::new();
        for call in &self.calls {
            *rounds.entry(call.at).or_default() += 1;
        }
        rounds.into_values().max().unwrap_or_default()
    }

    /// Whether this is a write that changed something.
    #[must_use]
    pub fn has_effect(&self, at: &Trigger) -> bool {
        let Trigger::Write(number) = at else { return false };
        self.calls.get(number.wrapping_sub(1)).is_some_and(|call| call.effect.is_some())
    }
}

fn count<K: Ord + Borrow<Q>, Q: Ord + ?Sized>(counts: &BTreeMap<K, usize>, of: &Q) -> usize {
    counts.get(of).copied().unwrap_or_default()
}
