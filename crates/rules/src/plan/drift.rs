//! The drift of one object: the fields that differ, what is decided about each, and the object to
//! write.
//!
//! A kept field has its live value in the object that is written, so that the write does not reset
//! it. The stamp stays that of the desired object.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;
use trueup_model::drift::{Divergence, DivergenceClass, DivergenceState, FieldRef, Verdict};
use trueup_model::key::ResourceKey;
use trueup_model::order::Order;

use super::evidence::evidence;
use super::keep::with_live_values;
use super::stamp::{Stamp, StampEdit};
use crate::compare::closed;
use crate::compare::diff::{FieldDifference, differences, first_difference};
use crate::compare::owner;
use crate::compare::path::Path;
use crate::drift::admit::{holds_protected, is_ownership};
use crate::drift::decide::{Handling, decide, decision};
use crate::render::proof::ProofKey;

/// A live object that is compared with its desired state.
pub(super) struct Comparison<'a> {
    pub(super) order: &'a Order,
    pub(super) proofs: &'a ProofKey,
    pub(super) key: &'a ResourceKey,
    pub(super) live: &'a Value,
    pub(super) stamp: &'a Stamp,
    /// The object that we wrote last, if it was for a known former order.
    pub(super) former: Option<&'a Value>,
    pub(super) now: Timestamp,
}

/// The fields that we set and that differ.
pub(super) struct Edits<'a> {
    /// The object to write: the desired one, with the live values of kept fields.
    pub(super) object: Cow<'a, Value>,
    /// What stands: kept fields with their state, and open ones, which the write reverts.
    pub(super) standing: Vec<Divergence>,
}

/// A field that differs, before anything is decided about it.
struct Sighted<'v> {
    field: String,
    class: DivergenceClass,
    wanted: &'v Value,
    live: &'v Value,
    by: Option<String>,
}

impl<'a> Comparison<'a> {
    /// Compares the fields that we set.
    pub(super) fn edits(&self, wanted: &'a Value) -> Edits<'a> {
        let mut kept = Vec::new();
        let mut standing = Vec::new();
        for difference in differences(wanted, self.live).into_iter().flat_map(|it| self.split(it)) {
            let divergence = self.decided(Sighted {
                field: difference.path.to_string(),
                class: DivergenceClass::Edited,
                wanted: difference.wanted,
                live: difference.live,
                by: owner::of(self.live, &difference.path),
            });
            if divergence.state == DivergenceState::Open {
                // An older generation has other values of ours: they are updated, not reverted.
                standing.extend((!matches!(self.stamp, Stamp::Older)).then_some(divergence));
            } else if self.is_foreign(&difference, &divergence) {
                kept.push(difference);
                standing.push(divergence);
            } else if !matches!(self.stamp, Stamp::Older) {
                // Whose value it is cannot be told, because the stamp was edited as well.
                standing.push(Divergence { state: DivergenceState::Open, ..divergence });
            }
        }
        if let Stamp::Edited(StampEdit { field, wanted, live, by }) = self.stamp {
            let (field, by) = (field.clone(), by.clone());
            let class = DivergenceClass::BrokenProof;
            standing.push(self.decided(Sighted { field, class, wanted, live, by }));
        }
        let object = if kept.is_empty() {
            Cow::Borrowed(wanted)
        } else {
            Cow::Owned(with_live_values(wanted, &kept))
        };
        Edits { object, standing }
    }

    /// Compares the closed paths with this object; also returns the patch that removes foreign
    /// values, if there are any to remove.
    ///
    /// On an object of an older generation, an unwanted value without a recorded manager may be our
    /// own: the next apply removes it.
    pub(super) fn additions(&self, object: &Value) -> (Vec<Divergence>, Option<Value>) {
        let mut standing = Vec::new();
        let mut removed = closed::foreign(self.key.kind, object, self.live);
        removed.retain(|foreign| {
            if foreign.by.is_none() && matches!(self.stamp, Stamp::Older) {
                return false;
            }
            let divergence = self.decided(Sighted {
                field: foreign.field.clone(),
                class: DivergenceClass::ForeignWriter,
                wanted: foreign.wanted(),
                live: foreign.live,
                by: foreign.by.clone(),
            });
            let is_removed = divergence.state == DivergenceState::Open;
            standing.push(divergence);
            is_removed
        });
        let patch = (!removed.is_empty()).then(|| removed.patch());
        (standing, patch)
    }

    /// A missing map is one difference if all of it is handled alike. Otherwise it is compared down
    /// to its values, because a rule may be about one of them.
    fn split<'d>(&self, difference: FieldDifference<'d>) -> Vec<FieldDifference<'d>> {
        let handling = |path: &Path<'_>| {
            let at = FieldRef { key: self.key.clone(), field: path.to_string() };
            decide(&self.order.drift, &at, self.now)
        };
        let whole = handling(&difference.path);
        let leaves = difference.leaves();
        if leaves.iter().all(|leaf| handling(&leaf.path) == whole) {
            vec![difference]
        } else {
            leaves
        }
    }

    /// The divergence, with its verdict and its state; open if it is to be reverted.
    fn decided(&self, sighted: Sighted<'_>) -> Divergence {
        let Sighted { field, class, wanted, live, by } = sighted;
        let at = FieldRef { key: self.key.clone(), field: recorded_path(field) };
        let holds = |value: &Value| holds_protected(at.key.kind, &at.field, value);
        let handling = if holds(wanted) || holds(live) {
            Handling::Revert { verdict: Verdict::Enforce }
        } else {
            decide(&self.order.drift, &at, self.now)
        };
        let (verdict, state) = match handling {
            Handling::Revert { verdict } => (verdict, DivergenceState::Open),
            Handling::Keep { verdict, state } => (verdict, state),
        };
        let class = if is_ownership(&at.field) { DivergenceClass::BrokenProof } else { class };
        let recorded = |value: &Value| evidence(self.order, self.key, value, self.proofs);
        let (wanted, live) = (recorded(wanted), recorded(live));
        let FieldRef { key, field } = at;
        Divergence { key, field, class, wanted, live, by, verdict, state }
    }

    /// Whether a value to be kept is that of another writer.
    ///
    /// If our last write was not the desired state, it may be our own older value. Then it is kept
    /// only with a recorded manager, and not if it is what the former order wanted. After a
    /// restart the former order is not known: then nothing new is proposed, because the rollback of
    /// an adopted value would propose it once more.
    fn is_foreign(&self, difference: &FieldDifference<'_>, divergence: &Divergence) -> bool {
        let former = self.former.and_then(|former| difference.path.find(former));
        let is_of_former =
            former.is_some_and(|ours| first_difference(ours, difference.live).is_none());
        // A proposal is void once another value was requested.
        let is_requested_anew = divergence.state == DivergenceState::Proposed
            && former.is_some_and(|ours| first_difference(difference.wanted, ours).is_some());
        let may_be_ours = is_of_former
            || is_requested_anew
            || (self.former.is_none() && self.is_new_proposal(divergence));
        matches!(self.stamp, Stamp::Current) || (divergence.by.is_some() && !may_be_ours)
    }

    /// Whether a value would be proposed for adoption that no recorded proposal is about.
    fn is_new_proposal(&self, divergence: &Divergence) -> bool {
        let Divergence { key, field, state, .. } = divergence;
        let at = FieldRef { key: key.clone(), field: field.clone() };
        *state == DivergenceState::Proposed && decision(&self.order.drift, &at, self.now).is_none()
    }
}

/// The most bytes of a path that are recorded.
const LONGEST_PATH: usize = 500;

/// A path as it is recorded: in a unique index, so not too long, and Postgres stores no NUL in text.
/// Names of variables can be longer than that.
fn recorded_path(path: String) -> String {
    if path.len() <= LONGEST_PATH && !path.contains('\0') {
        return path;
    }
    let start: String = path.replace('\0', "\u{fffd}").chars().take(LONGEST_PATH / 4).collect();
    format!("{start}…")
}

/// The object at a recorded key is gone: another writer deleted it.
pub(super) fn deleted(key: &ResourceKey) -> Divergence {
    Divergence {
        key: key.clone(),
        field: String::new(),
        class: DivergenceClass::Deleted,
        wanted: Value::Null,
        live: Value::Null,
        by: None,
        verdict: Verdict::Enforce,
        state: DivergenceState::Open,
    }
}
