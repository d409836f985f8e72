//! What is left to do: desired and observed in, actions and a report out. Pure, and made anew each
//! time, so no half-done step has to be remembered anywhere.
//!
//! A plan holds only actions that may run side by side. What must come later (children after their
//! anchor, pods after their variables) appears in the next plan, once the first is seen to be done.

mod active;
mod anchors;
mod deleted;
mod deletion_blockers;
pub mod finding;
mod frozen;
mod judge;
mod ownership;
pub mod survey;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::Absent;
use trueup_model::order::{Body, Order};
use trueup_model::report::{ObjectChange, Outcome};
use trueup_model::service::DesiredState;

use crate::render::proof::ProofKey;
use crate::render::shown;

pub use deletion_blockers::volume as volume_left;
pub use frozen::held;
pub use ownership::{Ownership, ownership};

/// What was seen of one unit.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// What stands at the order's keys.
    pub objects: BTreeMap<ResourceKey, Arc<Value>>,
    /// The service's pods.
    pub pods: Vec<Arc<Value>>,
    /// Kinds that the cluster takes no objects of.
    pub missing: BTreeMap<Kind, Absent>,
    /// The nodes that they are on, by name; one that is missing is gone. Nothing where nodes may not
    /// be looked at.
    pub nodes: Option<BTreeMap<String, Arc<Value>>>,
    /// Whether the project's namespace and policies are all there. Always true for a project.
    pub project_ready: bool,
    /// When this was seen.
    pub as_of: Timestamp,
    /// Whether Kubernetes is taking the namespace down with all that is in it. There is no way back.
    pub namespace_ending: bool,
}

/// What to do now, and what to say when there is nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionPlan {
    /// May run side by side; the next plan is made when all have been seen to be done.
    pub actions: Vec<Action>,
    /// How things stand if there are no actions.
    pub outcome: Outcome,
}

/// One idempotent step.
#[derive(Clone, PartialEq)]
pub enum Action {
    /// Write this object.
    Apply {
        /// Where.
        key: ResourceKey,
        /// What, whole.
        object: Value,
        /// What to tell the event log once it is done.
        change: ObjectChange,
    },
    /// Take out what others put where only we may write. Apply does not: it leaves alone what
    /// another manager owns.
    Prune {
        /// Where.
        key: ResourceKey,
        /// A merge patch that names the uid and version it was judged by.
        patch: Value,
        /// What to tell the event log once it is done.
        change: ObjectChange,
    },
    /// Take this incarnation away.
    Delete {
        /// Where.
        key: ResourceKey,
        /// Which incarnation.
        uid: String,
        /// The version it was judged by.
        version: String,
    },
    /// Take our finalizer off an anchor that nothing hangs from any more.
    ReleaseAnchor {
        /// Where.
        key: ResourceKey,
        /// Which incarnation.
        uid: String,
        /// The version it was judged by.
        version: String,
        /// The finalizers that stay.
        finalizers: Vec<String>,
    },
    /// Read every recorded key afresh and prove that nothing is left.
    VerifyAbsence,
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apply { key, object, change } => {
                write!(f, "Apply({key}, {}, {change:?})", shown(key, object))
            }
            Self::Prune { key, patch, change } => {
                write!(f, "Prune({key}, {}, {change:?})", shown(key, patch))
            }
            Self::Delete { key, uid, version } => write!(f, "Delete({key}, {uid}, {version})"),
            Self::ReleaseAnchor { key, uid, version, finalizers } => {
                write!(f, "ReleaseAnchor({key}, {uid}, {version}, {finalizers:?})")
            }
            Self::VerifyAbsence => f.write_str("VerifyAbsence"),
        }
    }
}

impl ActionPlan {
    fn act(actions: Vec<Action>) -> Self {
        Self { actions, outcome: Outcome::Waiting { on: "writes to be seen".to_owned() } }
    }

    fn wait(on: impl Into<String>) -> Self {
        Self { actions: Vec::new(), outcome: Outcome::Waiting { on: on.into() } }
    }

    const fn ends(outcome: Outcome) -> Self {
        Self { actions: Vec::new(), outcome }
    }

    fn blocked(why: String) -> Self {
        Self { actions: Vec::new(), outcome: Outcome::Blocked { why } }
    }

    const fn converged() -> Self {
        Self { actions: Vec::new(), outcome: Outcome::Converged }
    }
}

/// What is left to do for this order.
#[must_use]
pub fn plan(order: &Order, observed: &Observed, proofs: &ProofKey) -> ActionPlan {
    if let Some(why) = anchors::ahead(order, observed, proofs) {
        return ActionPlan { actions: Vec::new(), outcome: Outcome::Outdated { why } };
    }
    match (&order.body, order.desired) {
        (_, DesiredState::Deleted) => deleted::plan(order, observed, proofs),
        (Body::Project, DesiredState::Active | DesiredState::Paused) => {
            active::project(order, observed, proofs)
        }
        (Body::Service(body), DesiredState::Active | DesiredState::Paused) => {
            active::service(order, body, observed, proofs)
        }
    }
}

/// The uid and version of an object that was seen.
fn incarnation(object: &Value) -> (String, String) {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    (text("uid"), text("resourceVersion"))
}

/// Takes away exactly what was seen.
fn delete(key: &ResourceKey, object: &Value) -> Action {
    let (uid, version) = incarnation(object);
    Action::Delete { key: key.clone(), uid, version }
}

/// Whether Kubernetes is taking an object down.
fn terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}
