//! Findings: who owns a labelled object, and how many may be removed without confirmation.

use serde_json::Value;
use trueup_model::finding::OrphanCandidate;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Unit;

use crate::render::names;
use crate::render::proof::ProofKey;

/// The most removals in an hour without confirmation.
const MOST: u64 = 10;
/// The same limit as a share of our objects in the cluster: one in so many.
const ONE_IN: u64 = 20;

/// The unit that a labelled object claims to belong to, and whether its proof is valid.
#[must_use]
pub fn candidate(kind: Kind, object: &Value, proofs: &ProofKey) -> (OrphanCandidate, Option<Unit>) {
    let metadata = &object["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let key = ResourceKey::new(kind, &text(&metadata["namespace"]), &text(&metadata["name"]));
    let unit = unit(metadata);
    let proof = text(&metadata["annotations"][names::PROOF_ANNOTATION]);
    let candidate = OrphanCandidate {
        proved: unit.is_some_and(|unit| proofs.holds(unit, &key, &proof)),
        key,
        uid: text(&metadata["uid"]),
        resource_version: text(&metadata["resourceVersion"]),
        unit: unit.map(|unit| unit.to_string()),
    };
    (candidate, unit)
}

fn unit(metadata: &Value) -> Option<Unit> {
    let label = |name: &str| metadata["labels"][name].as_str();
    match label(names::SERVICE_LABEL) {
        Some(service) => service.parse().ok().map(Unit::Service),
        None => label(names::PROJECT_LABEL)?.parse().ok().map(Unit::Project),
    }
}

/// Whether one more finding of a cluster may be removed, after `lately` removals in the last hour
/// and with `objects` objects of ours.
///
/// # Errors
/// The limit is reached: the number of removals that has to be confirmed.
pub fn may_remove(lately: u64, objects: u64, confirmed: Option<u64>) -> Result<(), u64> {
    let number = lately.saturating_add(1);
    let budget = MOST.min(objects / ONE_IN).max(1);
    if number <= budget || confirmed == Some(number) { Ok(()) } else { Err(number) }
}

/// Why Trueup does not remove a finding, if so.
#[must_use]
pub const fn kept(kind: Kind, proved: bool) -> Option<&'static str> {
    if !proved {
        return Some(
            "the object has no valid ownership proof, so Trueup does not remove it; find its \
             owner, then delete it with kubectl or remove the label",
        );
    }
    if matches!(kind, Kind::Namespace) {
        return Some(
            "deleting a namespace deletes everything in it, foreign objects too; check its \
             contents, then delete it with kubectl",
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removals_beyond_the_limit_need_the_exact_number() {
        for (lately, objects, confirmed, expected) in [
            (0, 0, None, Ok(())),
            (1, 0, None, Err(2)),
            (1, 39, None, Err(2)),
            (1, 40, None, Ok(())),
            (9, 10_000, None, Ok(())),
            (10, 10_000, None, Err(11)),
            (10, 10_000, Some(10), Err(11)),
            (10, 10_000, Some(11), Ok(())),
            (u64::MAX, 1, None, Err(u64::MAX)),
        ] {
            let result = may_remove(lately, objects, confirmed);
            assert_eq!(result, expected, "{lately} of {objects}, {confirmed:?}");
        }
    }

    #[test]
    fn unproved_objects_and_namespaces_are_kept() {
        assert!(kept(Kind::ConfigMap, false).is_some());
        assert!(kept(Kind::Namespace, true).is_some());
        assert_eq!(kept(Kind::PersistentVolumeClaim, true), None);
    }
}
