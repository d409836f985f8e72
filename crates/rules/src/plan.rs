//! Planning: from desired and observed state to the next actions and the outcome of a pass.
//!
//! A plan is computed from scratch each time, so no half-done work has to be remembered. It holds
//! only actions that may run concurrently. What must come later (children after their anchor, pods
//! after their variables) is in the next plan, once the first writes are observed.

mod active;
mod anchors;
mod deleted;
mod deletion_blockers;
mod drift;
mod evidence;
pub mod finding;
mod former;
mod frozen;
mod judge;
mod keep;
mod keep_claims;
mod outdated_run;
mod ownership;
mod pause;
mod stages;
mod stamp;
pub mod survey;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use trueup_model::drift::Divergence;
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

/// The observed state of one unit.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// The objects at the order's keys.
    pub objects: BTreeMap<ResourceKey, Arc<Value>>,
    /// The service's pods.
    pub pods: Vec<Arc<Value>>,
    /// Kinds that the cluster does not serve or does not allow.
    pub missing: BTreeMap<Kind, Absent>,
    /// The nodes of the pods, by name; a node that is not listed is gone. `None` where Trueup may
    /// not read nodes.
    pub nodes: Option<BTreeMap<String, Arc<Value>>>,
    /// Whether the project's namespace and policies all exist. Always true for a project.
    pub project_ready: bool,
    /// When this was observed.
    pub as_of: Timestamp,
    /// Whether the namespace is terminating, which cannot be undone.
    pub namespace_ending: bool,
}

/// The next actions of a pass, and its outcome when there are none.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionPlan {
    /// May run concurrently; the next plan is made when all are done and observed.
    pub actions: Vec<Action>,
    /// The outcome if there are no actions.
    pub outcome: Outcome,
    /// Differences that stand, by key and field: kept ones, and open ones, which end with the
    /// actions of this plan or a later one. Each field once.
    pub standing: Vec<Divergence>,
}

/// One idempotent write or check.
#[derive(Clone, PartialEq)]
pub enum Action {
    /// Write this object.
    Apply {
        /// Where.
        key: ResourceKey,
        /// The whole object.
        object: Value,
        /// What to report once it is done.
        change: ObjectChange,
    },
    /// Remove foreign values from closed paths. Apply does not: it keeps fields of other managers.
    Prune {
        /// Where.
        key: ResourceKey,
        /// A merge patch, guarded by the uid and version that was compared.
        patch: Value,
        /// What to report once it is done.
        change: ObjectChange,
    },
    /// Delete the object with this uid.
    Delete {
        /// Where.
        key: ResourceKey,
        /// The uid to delete.
        uid: String,
        /// The version that was compared.
        version: String,
    },
    /// Remove our finalizer from an anchor without dependents.
    ReleaseAnchor {
        /// Where.
        key: ResourceKey,
        /// The uid to release.
        uid: String,
        /// The version that was compared.
        version: String,
        /// The finalizers that stay.
        finalizers: Vec<String>,
    },
    /// Read every recorded key live and verify that nothing is left.
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
        let outcome = Outcome::Waiting { on: "writes to be observed".to_owned() };
        Self { actions, ..Self::ends(outcome) }
    }

    fn wait(on: impl Into<String>) -> Self {
        Self::ends(Outcome::Waiting { on: on.into() })
    }

    const fn ends(outcome: Outcome) -> Self {
        Self { actions: Vec::new(), outcome, standing: Vec::new() }
    }

    const fn blocked(why: String) -> Self {
        Self::ends(Outcome::Blocked { why })
    }

    const fn converged() -> Self {
        Self::ends(Outcome::Converged)
    }
}

/// The next actions for this order.
#[must_use]
pub fn plan(order: &Order, observed: &Observed, proofs: &ProofKey) -> ActionPlan {
    plan_after(None, order, observed, proofs)
}

/// The next actions for this order, which replaces a former one: values of other writers are told
/// from those that the former order wanted.
#[must_use]
pub fn plan_after(
    former: Option<&Order>,
    order: &Order,
    observed: &Observed,
    proofs: &ProofKey,
) -> ActionPlan {
    if let Some(why) = anchors::ahead(order, observed, proofs) {
        return ActionPlan::ends(Outcome::Outdated { why });
    }
    match (&order.body, order.desired) {
        (_, DesiredState::Deleted) => deleted::plan(order, observed, proofs),
        (Body::Project, DesiredState::Active | DesiredState::Paused) => {
            active::project(order, observed, proofs)
        }
        (Body::Service(body), DesiredState::Active | DesiredState::Paused) => {
            active::service(order, body, former, observed, proofs)
        }
    }
}

/// The uid and version of an observed object.
fn uid_and_version(object: &Value) -> (String, String) {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    (text("uid"), text("resourceVersion"))
}

/// Deletes exactly the observed uid and version.
fn delete(key: &ResourceKey, object: &Value) -> Action {
    let (uid, version) = uid_and_version(object);
    Action::Delete { key: key.clone(), uid, version }
}

/// Whether an object is being deleted.
fn terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}
