//! Injected faults that have not happened yet.

use std::collections::{BTreeMap, VecDeque};

use trueup_cluster::CallError;

use super::{Verb, When};

/// The faults of one cluster.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Each fails one call.
    next: BTreeMap<Verb, VecDeque<(CallError, When)>>,
    /// Each fails every call; with the number of failed calls.
    lasting: BTreeMap<Verb, (CallError, usize)>,
}

impl Faults {
    pub(super) fn add(&mut self, verb: Verb, error: CallError, when: When) {
        self.next.entry(verb).or_default().push_back((error, when));
    }

    pub(super) fn add_lasting(&mut self, verb: Verb, error: CallError) {
        self.lasting.insert(verb, (error, 0));
    }

    /// The fault for a call with this verb, if any.
    pub(super) fn take(&mut self, verb: Verb) -> Option<(CallError, When)> {
        if let Some(fault) = self.next.get_mut(&verb).and_then(VecDeque::pop_front) {
            return Some(fault);
        }
        let (error, hits) = self.lasting.get_mut(&verb)?;
        *hits += 1;
        Some((error.clone(), When::Before))
    }

    /// The faults that never happened.
    pub(super) fn left(&self) -> Vec<(Verb, CallError, When)> {
        let next = self.next.iter().flat_map(|(verb, faults)| {
            faults.iter().map(|(error, when)| (*verb, error.clone(), *when))
        });
        let lasting = self.lasting.iter().filter(|(_, (_, hits))| *hits == 0);
        next.chain(lasting.map(|(verb, (error, _))| (*verb, error.clone(), When::Before))).collect()
    }
}
