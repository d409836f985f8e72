//! What a foreign writer does to an object right before or after a write of Trueup.
//!
//! Every change here is made with another field manager, which then owns the changed fields, as
//! after a forced server-side apply.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use trueup_model::key::{Kind, ResourceKey};
use trueup_rules::render::names;

use super::journal::{Call, Target};
use super::layer::{NOTE, Shared};
use super::layer_state::{Due, with_dependents};
use super::notes::Notes;
use super::plan::{Fault, FaultAction, Side, Trigger};
use crate::fake_cluster::{FakeCluster, Verb};

/// What the names of Trueup's own labels begin with.
const OWN_LABELS: &str = "trueup.dev/";

/// A field that Trueup sets in objects of this kind, as a JSON pointer, and another value for it.
///
/// Its desired value is the same in every generation, and no pod depends on it.
fn takeable(kind: Kind) -> Option<(&'static str, Value)> {
    match kind {
        Kind::Deployment => Some(("/spec/progressDeadlineSeconds", json!(99))),
        Kind::StatefulSet => {
            Some(("/spec/persistentVolumeClaimRetentionPolicy/whenScaled", json!("Delete")))
        }
        Kind::Service => Some(("/spec/internalTrafficPolicy", json!("Local"))),
        _ => None,
    }
}

/// Whether a field of the written object can be taken over at this write.
pub(super) fn can_take_over(call: &Call, side: Side) -> bool {
    let exists = side == Side::After || call.target == Target::Present;
    exists && call.verb == Verb::Apply && takeable(call.key.kind).is_some()
}

/// Whether a fault was possible at the call that it met. Only a field of some kinds can be taken
/// over, and services that converge side by side do not always write in the same order.
pub(super) fn is_possible(fault: &Fault, notes: &Notes) -> bool {
    match (&fault.then, &fault.at) {
        (FaultAction::ForeignTakeOver(side), Trigger::Write(number)) => {
            let call = number.checked_sub(1).and_then(|index| notes.calls.get(index));
            call.is_some_and(|call| can_take_over(call, *side))
        }
        _ => true,
    }
}

impl Shared {
    /// Annotates the object.
    pub(super) fn foreign_edit(&self, due: &Due, key: &ResourceKey) {
        let Some((uid, _)) = existing(&self.fake, key) else { return };
        self.happened(due);
        self.state().notes.foreign.insert((key.clone(), uid));
        self.fake.edit(key, |object| object["metadata"]["annotations"][NOTE] = "theirs".into());
    }

    /// Deletes the object.
    pub(super) fn foreign_delete(&self, due: &Due, key: &ResourceKey) {
        let deleted = with_dependents(&self.fake, key);
        let before = self.fake.version();
        self.fake.remove(key);
        if self.fake.version() != before {
            self.happened(due);
            self.state().notes.deleted.extend(deleted);
        }
    }

    /// Removes Trueup's labels, so that no watch of its objects reports the object any more.
    pub(super) fn foreign_relabel(&self, due: &Due, key: &ResourceKey) {
        if present(&self.fake, key).is_none() {
            return;
        }
        self.happened(due);
        self.fake.edit(key, |object| {
            let labels = object.pointer_mut("/metadata/labels").and_then(Value::as_object_mut);
            if let Some(labels) = labels {
                labels.retain(|name, _| name != names::MANAGED_BY && !name.starts_with(OWN_LABELS));
            }
        });
    }

    /// Takes over a field that Trueup sets.
    pub(super) fn foreign_take_over(&self, due: &Due, key: &ResourceKey) {
        let Some((field, theirs)) = takeable(key.kind) else { return };
        let Some((uid, object)) = present(&self.fake, key) else { return };
        if object.pointer(field).is_none() {
            return;
        }
        self.happened(due);
        self.state().notes.taken.insert((key.clone(), uid), field);
        self.fake.edit(key, |object| {
            if let Some(value) = object.pointer_mut(field) {
                *value = theirs;
            }
        });
    }
}

/// The uid of the object at this key, and the object.
fn existing(fake: &FakeCluster, key: &ResourceKey) -> Option<(String, Value)> {
    let object = fake.find(key)?;
    Some((object["metadata"]["uid"].as_str()?.to_owned(), object))
}

/// The same, unless the object is being deleted.
fn present(fake: &FakeCluster, key: &ResourceKey) -> Option<(String, Value)> {
    existing(fake, key).filter(|(_, object)| Target::of(Some(object)) == Target::Present)
}

/// The fields that were taken over, of objects that still exist, and whether they have the foreign
/// value.
fn taken(notes: &Notes, fake: &FakeCluster) -> impl Iterator<Item = (ResourceKey, String, bool)> {
    notes.taken.iter().filter_map(|((key, uid), field)| {
        let (_, theirs) = takeable(key.kind)?;
        let (_, object) = present(fake, key).filter(|(found, _)| found == uid)?;
        let path = field.trim_start_matches('/').replace('/', ".");
        Some((key.clone(), path, object.pointer(field) == Some(&theirs)))
    })
}

/// The fields with a value of a foreign writer, as reports name them.
pub(super) fn standing(notes: &Notes, fake: &FakeCluster) -> BTreeSet<(ResourceKey, String)> {
    taken(notes, fake).filter(|(.., stands)| *stands).map(|(key, field, _)| (key, field)).collect()
}

/// O13: values of foreign writers that were overwritten although they are to be kept.
pub(super) fn overwritten(notes: &Notes, fake: &FakeCluster) -> Vec<String> {
    let lost = taken(notes, fake).filter(|(.., stands)| !*stands);
    lost.map(|(key, field, _)| format!("O13: the kept value of {field} of {key} was overwritten"))
        .collect()
}
