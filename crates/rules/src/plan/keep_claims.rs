//! Volumes that grow.
//!
//! The claims are enlarged, not the claim templates of a StatefulSet: those are immutable, and no
//! claim is created from them, because Trueup writes each claim itself. A claim is enlarged after
//! everything else is written. A storage class may not allow it, and that must not stop other
//! changes of the service.

use serde_json::Value;
use trueup_model::key::Kind;
use trueup_model::order::Order;

use super::{Observed, Ownership, ownership, terminating};
use crate::compare::fixed::{CLAIM_SIZE, grows};
use crate::render::Rendered;
use crate::render::proof::ProofKey;

/// Keeps the sizes in the claim templates of a live StatefulSet. Any other difference there stays
/// one, and blocks the service.
pub(super) fn keep_claim_templates(observed: &Observed, mut workload: Rendered) -> Rendered {
    const TEMPLATES: &str = "/spec/volumeClaimTemplates";
    let (Kind::StatefulSet, Some(live)) = (workload.key.kind, observed.objects.get(&workload.key))
    else {
        return workload;
    };
    let kept = live.pointer(TEMPLATES).and_then(Value::as_array);
    let wanted = workload.object.pointer_mut(TEMPLATES).and_then(Value::as_array_mut);
    for template in wanted.into_iter().flatten() {
        let name = &template["metadata"]["name"];
        let same = kept.into_iter().flatten().find(|other| other["metadata"]["name"] == *name);
        let size = same.and_then(|other| other.pointer(CLAIM_SIZE));
        if let (Some(size), Some(slot)) = (size, template.pointer_mut(CLAIM_SIZE)) {
            *slot = size.clone();
        }
    }
    workload
}

/// A service's objects in the order in which they are written: before the workload, and after
/// everything else.
pub(super) struct Split {
    /// All but the growing claims.
    pub(super) before: Vec<Rendered>,
    /// Our claims that are to be enlarged. A claim without a volume is immutable, so it is left
    /// out until it is bound, which is observed.
    pub(super) growing: Vec<Rendered>,
}

/// Separates our claims that grow from the other prerequisites.
pub(super) fn split_growing(
    order: &Order,
    observed: &Observed,
    proofs: &ProofKey,
    prerequisites: Vec<Rendered>,
) -> Split {
    let is_growing = |wanted: &Rendered| {
        let live = observed.objects.get(&wanted.key);
        wanted.key.kind == Kind::PersistentVolumeClaim
            && live.is_some_and(|live| {
                grows(&wanted.object, live)
                    && !terminating(live)
                    && ownership(order, &wanted.key, live, proofs) == Ownership::Ours
            })
    };
    let (mut growing, before): (Vec<_>, Vec<_>) = prerequisites.into_iter().partition(is_growing);
    growing.retain(|wanted| {
        observed.objects.get(&wanted.key).is_some_and(|live| live["status"]["phase"] == "Bound")
    });
    Split { before, growing }
}
