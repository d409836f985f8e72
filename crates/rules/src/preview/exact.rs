//! Exact previews: a pass that is only tried. The same plan as in a real pass says what to do, and what
//! the cluster answers to each dry run takes the place of what it would have stored.
//!
//! A dry run leaves nothing behind, so the next one knows nothing of it. What builds on what came before
//! is therefore planned on the answers, and what the server cannot try a second time is believed.

mod footing;
mod tell;

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

/// More steps than any plan takes. One that takes more does not come to rest.
const STEPS: usize = 24;

/// The uid of what was not even tried.
const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

/// A pass that is only tried.
#[derive(Debug)]
pub struct DryRunPass {
    order: Order,
    /// As it really is.
    live: BTreeMap<ResourceKey, Arc<Value>>,
    /// As it would be by now.
    observed: Observed,
    tried: BTreeMap<ResourceKey, Tried>,
    steps: usize,
}

/// What was tried with one object.
#[derive(Debug, Default)]
struct Tried {
    refused: Option<String>,
    applied: bool,
    /// Whether it would be gone at some time.
    gone: bool,
}

/// A write to be tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// Where.
    pub key: ResourceKey,
    /// What.
    pub write: Write,
}

/// How it is written.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// This whole object, where none may stand yet.
    Make(Value),
    /// This whole object.
    Apply(Value),
    /// This merge patch.
    Patch(Value),
}

/// What came of trying a write.
#[derive(Debug, Clone, PartialEq)]
pub enum Tries {
    /// It would be stored like this.
    Stored(Value),
    /// It would be refused with these words.
    Refused(String),
    /// Somebody was there first: this stands there now.
    There(Option<Value>),
    /// The cluster takes no objects of this kind, and a service can do without it.
    Missing(Absent),
}

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// These are to be tried, in any order.
    Try(Vec<Draft>),
    /// That was all.
    Over(ExactPreview),
}

impl DryRunPass {
    /// Begins with what stands there.
    #[must_use]
    pub fn new(order: Order, observed: Observed) -> Self {
        let live = observed.objects.clone();
        Self { order, live, observed, tried: BTreeMap::new(), steps: 0 }
    }

    /// What is to be tried now, or what it all comes to.
    pub fn next(&mut self, proofs: &ProofKey) -> Next {
        while self.steps < STEPS {
            self.steps += 1;
            let ActionPlan { actions, outcome } = plan(&self.order, &self.observed, proofs);
            if actions.is_empty() {
                return Next::Over(self.told(stops(&outcome), proofs));
            }
            let drafts: Vec<Draft> =
                actions.into_iter().filter_map(|action| self.draft(action)).collect();
            if !drafts.is_empty() {
                return Next::Try(drafts);
            }
        }
        let restless = "somebody else keeps changing its objects".to_owned();
        Next::Over(self.told(Some(restless), proofs))
    }

    /// Takes in what came of one try.
    pub fn take(&mut self, draft: Draft, tries: Tries) {
        let Draft { key, write } = draft;
        match tries {
            Tries::Stored(object) => self.stands(key, object),
            Tries::Refused(words) => {
                self.tried.entry(key.clone()).or_default().refused = Some(words);
                self.believe(key, write);
            }
            Tries::There(found) => {
                self.tried.remove(&key);
                let found = found.map(Arc::new);
                for world in [&mut self.live, &mut self.observed.objects] {
                    match &found {
                        Some(object) => world.insert(key.clone(), Arc::clone(object)),
                        None => world.remove(&key),
                    };
                }
            }
            Tries::Missing(why) => _ = self.observed.missing.insert(key.kind, why),
        }
    }

    /// What to ask the cluster about an action; nothing where it can only be believed.
    fn draft(&mut self, action: Action) -> Option<Draft> {
        match action {
            Action::Apply { key, object, change } => {
                let tried = self.tried.entry(key.clone()).or_default();
                if tried.applied && tried.refused.is_none() {
                    let place = if let ObjectChange::ModifiedExternally { field, .. } = &change {
                        format!(", at {field}")
                    } else {
                        String::new()
                    };
                    tried.refused = Some(format!("the cluster changes it on its way in{place}"));
                }
                // What is still there cannot be made a second time.
                if tried.applied || tried.gone {
                    self.believe(key, Write::Apply(object));
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
                // Only what stands there can be patched, and not what an apply would make of it.
                if self.tried.contains_key(&key) {
                    self.believe(key, Write::Patch(patch));
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
            // Only what shall be gone is proved to be.
            Action::VerifyAbsence => None,
        }
    }

    /// Goes on as if this had been written.
    fn believe(&mut self, key: ResourceKey, write: Write) {
        let seen = self.observed.objects.get(&key).map(|seen| (**seen).clone());
        let mut object = match write {
            Write::Make(object) | Write::Apply(object) => object,
            Write::Patch(patch) => {
                let mut object = seen.clone().unwrap_or_default();
                merge_patch(&mut object, &patch);
                object
            }
        };
        let uid = seen.map(|seen| seen["metadata"]["uid"].clone());
        let uid = uid.filter(Value::is_string).unwrap_or_else(|| NO_UID.into());
        object["metadata"]["uid"] = uid;
        self.stands(key, object);
    }

    fn stands(&mut self, key: ResourceKey, object: Value) {
        self.observed.objects.insert(key, Arc::new(object));
    }
}

/// Why a pass that ends like this has not done all that was asked.
fn stops(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Converged => None,
        Outcome::Waiting { on } => Some(format!("it would wait for {on}")),
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

/// Whether an object holds what nobody may read.
const fn is_secret(kind: Kind) -> bool {
    matches!(kind, Kind::Secret)
}
