//! Corrections: what to write so that the stored records of an object are the computed ones.
//!
//! An open record is changed in place. A closed one is evidence of what may have been charged, so
//! it is superseded and stays. A record that grows is not written again only because time passed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use trueup_model::usage::{Basis, Source, UsageRecord};

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Correction<Id> {
    /// A new record.
    Insert(UsageRecord),
    /// Another state of an open record.
    Update(Id, UsageRecord),
    /// A record that is no longer true.
    Supersede(Id),
}

/// What identifies a record among those of all objects.
type Key<'a> = (&'a str, Source, Timestamp, Basis);

fn key(record: &UsageRecord) -> Key<'_> {
    (&record.object, record.source, record.span.from, record.basis)
}

/// The writes that bring stored records to computed ones.
#[must_use]
pub fn corrections<Id: Copy>(
    stored: &[(Id, UsageRecord)],
    computed: &[UsageRecord],
) -> Vec<Correction<Id>> {
    let mut wanted: BTreeMap<Key<'_>, &UsageRecord> =
        computed.iter().map(|record| (key(record), record)).collect();
    let mut writes = Vec::new();
    for (id, old) in stored {
        match wanted.remove(&key(old)) {
            None => writes.push(Correction::Supersede(*id)),
            Some(new) if is_same(old, new) => {}
            Some(new) if old.open => writes.push(Correction::Update(*id, new.clone())),
            Some(new) => {
                writes.push(Correction::Supersede(*id));
                writes.push(Correction::Insert(new.clone()));
            }
        }
    }
    writes.extend(wanted.into_values().cloned().map(Correction::Insert));
    writes
}

/// Whether a stored record says the same. The end of one that grows follows its sources.
fn is_same(old: &UsageRecord, new: &UsageRecord) -> bool {
    if !(old.growing && new.growing) {
        return old == new;
    }
    let mut grown = old.clone();
    grown.span.until = new.span.until;
    grown.provenance.last = new.provenance.last.clone();
    grown == *new
}
