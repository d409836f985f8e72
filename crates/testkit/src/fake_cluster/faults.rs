//! Faults that a test injected and that have not happened yet.

use std::collections::{BTreeMap, VecDeque};

use trueup_cluster::CallError;

use super::{Verb, When};

/// The faults of one cluster.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Each is met by one call.
    next: BTreeMap<Verb, VecDeque<(CallError, When)>>,
    /// Met by every call, with the number of those that met it.
    lasting: BTreeMap<Verb, (CallError, usize)>,
}

impl Faults {
    pub(super) fn add(&mut self, verb: Verb, error: CallError, when: When) {
        self.next.entry(verb).or_default().push_back((error, when));
    }

    pub(super) fn add_lasting(&mut self, verb: Verb, error: CallError) {
        self.lasting.insert(verb, (error, 0));
    }

    /// What a call with this verb meets.
    pub(super) fn take(&mut self, verb: Verb) -> Option<(CallError, When)> {
        if let Some(fault) = self.next.get_mut(&verb).and_then(VecDeque::pop_front) {
            return Some(fault);
        }
        let (error, met) = self.lasting.get_mut(&verb)?;
        *met += 1;
        Some((error.clone(), When::Before))
    }

    /// The faults that no call met.
    pub(super) fn left(&self) -> Vec<(Verb, CallError, When)> {
        let next = self.next.iter().flat_map(|(verb, faults)| {
            faults.iter().map(|(error, when)| (*verb, error.clone(), *when))
        });
        let lasting = self.lasting.iter().filter(|(_, (_, met))| *met == 0);
        next.chain(lasting.map(|(verb, (error, _))| (*verb, error.clone(), When::Before))).collect()
    }
}
