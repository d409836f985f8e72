//! Exact previews: a pass made of server-side dry runs.
//!
//! The plan is the same as in a real pass, and the server's answer to each dry run stands for the
//! object it would have stored. A dry run stores nothing, so later writes are planned on these
//! answers, and a write that cannot be tried on the server is assumed to succeed.

mod footing;
mod result;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::Absent;
use trueup_model::order::Order;
use trueup_model::preview_request::ExactPreview;
use trueup_model::report::{ObjectChange, Outcome};

use crate::plan::{Action, ActionPlan, Observed, plan};
use crate::render::proof::ProofKey;

pub use footing::{hash, holds};

/// More rounds than any pass needs. A pass that needs more does not converge.
const STEPS: usize = 24;

/// The uid of an object whose write is only assumed.
const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

/// A pass of which every write is a dry run.
#[derive(Debug)]
pub struct DryRunPass {
    order: Order,
    /// The objects as they are.
    live: BTreeMap<ResourceKey, Arc<Value>>,
    /// The objects as they would be after the writes so far.
    observed: Observed,
    tried: BTreeMap<ResourceKey, Tried>,
    steps: usize,
}

/// The dry runs of one object.
#[derive(Debug, Default)]
struct Tried {
    refused: Option<String>,
    applied: bool,
    /// Whether it would be deleted at some point.
    gone: bool,
}

/// A write to dry-run.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// Where.
    pub key: ResourceKey,
    /// The write.
    pub write: Write,
}

/// The kind of write, with its content.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Create this object; none may exist.
    Make(Value),
    /// Apply this object.
    Apply(Value),
    /// Apply this merge patch.
    Patch(Value),
}

/// The result of a dry run.
#[derive(Debug, Clone, PartialEq)]
pub enum Tries {
    /// The object that would be stored.
    Stored(Value),
    /// The server's reason for refusing it.
    Refused(String),
    /// The precondition failed: this is the live object now.
    There(Option<Value>),
    /// The cluster does not serve or allow this optional kind.
    Missing(Absent),
}

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Dry-run these writes, in any order.
    Try(Vec<Draft>),
    /// The preview is complete.
    Over(ExactPreview),
}

impl DryRunPass {
    /// Starts from the observed objects.
    #[must_use]
    pub fn new(order: Order, observed: Observed) -> Self {
        let live = observed.objects.clone();
        Self { order, live, observed, tried: BTreeMap::new(), steps: 0 }
    }

    /// The next writes to dry-run, or the finished preview.
    pub fn next(&mut self, proofs: &ProofKey) -> Next {
        while self.steps < STEPS {
            self.steps += 1;
            let ActionPlan { actions, outcome, .. } = plan(&self.order, &self.observed, proofs);
            if actions.is_empty() {
                return Next::Over(self.preview(stops(&outcome), proofs));
            }
            let drafts: Vec<Draft> =
                actions.into_iter().filter_map(|action| self.draft(action)).collect();
            if !drafts.is_empty() {
                return Next::Try(drafts);
            }
        }
        let unstable = "another writer keeps changing its objects".to_owned();
        Next::Over(self.preview(Some(unstable), proofs))
    }

    /// Records the result of one dry run.
    pub fn take(&mut self, draft: Draft, tries: Tries) {
        let Draft { key, write } = draft;
        match tries {
            Tries::Stored(object) => self.set(key, object),
            Tries::Refused(reason) => {
                self.tried.entry(key.clone()).or_default().refused = Some(reason);
                self.assume(key, write);
            }
            Tries::There(found) => {
                self.tried.remove(&key);
                let found = found.map(Arc::new);
                for objects in [&mut self.live, &mut self.observed.objects] {
                    match &found {
                        Some(object) => objects.insert(key.clone(), Arc::clone(object)),
                        None => objects.remove(&key),
                    };
                }
            }
            Tries::Missing(why) => _ = self.observed.missing.insert(key.kind, why),
        }
    }

    /// The dry run for an action; `None` where its success is assumed.
    fn draft(&mut self, action: Action) -> Option<Draft> {
        match action {
            Action::Apply { key, object, change } => {
                let tried = self.tried.entry(key.clone()).or_default();
                if tried.applied && tried.refused.is_none() {
                    let place = first_field(&change).map(|field| format!(", at {field}"));
                    let place = place.unwrap_or_default();
                    tried.refused =
                        Some(format!("the cluster changes the object on admission{place}"));
                }
                // An object that still exists cannot be created by a dry run.
                if tried.applied || tried.gone {
                    self.assume(key, Write::Apply(object));
                    return None;
                }
                tried.applied = true;
                let new = matches!(
                    change,
                    ObjectChange::Created { .. } | ObjectChange::DeletedExternally { .. }
                );
                let write = if new { Write::Make(object) } else { Write::Apply(object) };
                Some(Draft { key, write })
            }
            Action::Prune { key, patch, .. } => {
                // Only the live object can be patched, not the result of an earlier dry run.
                if self.tried.contains_key(&key) {
                    self.assume(key, Write::Patch(patch));
                    return None;
                }
                self.tried.entry(key.clone()).or_default();
                Some(Draft { key, write: Write::Patch(patch) })
            }
            Action::Delete { key, .. } | Action::ReleaseAnchor { key, .. } => {
                self.observed.objects.remove(&key);
                self.order.recorded.insert(key.clone(), None);
                self.tried.entry(key).or_default().gone = true;
                None
            }
            // Absence is verified only after a real deletion.
            Action::VerifyAbsence => None,
        }
    }

    /// Continues as if this had been written.
    fn assume(&mut self, key: ResourceKey, write: Write) {
        let current = self.observed.objects.get(&key).map(|object| (**object).clone());
        let mut object = match write {
            Write::Make(object) | Write::Apply(object) => object,
            Write::Patch(patch) => {
                let mut object = current.clone().unwrap_or_default();
                merge_patch(&mut object, &patch);
                object
            }
        };
        let uid = current.map(|object| object["metadata"]["uid"].clone());
        let uid = uid.filter(Value::is_string).unwrap_or_else(|| NO_UID.into());
        object["metadata"]["uid"] = uid;
        self.set(key, object);
    }

    fn set(&mut self, key: ResourceKey, object: Value) {
        self.observed.objects.insert(key, Arc::new(object));
    }
}

/// The first field that a write reverts.
fn first_field(change: &ObjectChange) -> Option<&str> {
    match change {
        ObjectChange::ModifiedExternally { fields, .. } => {
            fields.first().map(|reverted| reverted.field.as_str())
        }
        ObjectChange::Created { .. }
        | ObjectChange::Updated { .. }
        | ObjectChange::Removed { .. }
        | ObjectChange::DeletedExternally { .. } => None,
    }
}

/// Why a pass with this outcome is not converged, if so.
fn stops(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Converged => None,
        Outcome::Waiting { on } => Some(format!("the pass would wait for {on}")),
        Outcome::Blocked { why }
        | Outcome::Outdated { why }
        | Outcome::Deferred { why }
        | Outcome::Refused { why }
        | Outcome::Failed { why }
        | Outcome::Frozen { why }
        | Outcome::Locked { why }
        | Outcome::Broken { why } => Some(why.clone()),
    }
}

/// RFC 7386.
fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge_patch(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// Whether the fields of a kind must not be shown.
const fn is_secret(kind: Kind) -> bool {
    matches!(kind, Kind::Secret)
}
