//! What a candidate object is, and how many of them may go before somebody is asked.

use serde_json::Value;
use trueup_model::finding::OrphanCandidate;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Unit;

use crate::render::names;
use crate::render::proof::ProofKey;

/// So many removals in an hour need no second word.
const MOST: u64 = 10;
/// Nor does one of so many objects that the cluster has of ours.
const ONE_IN: u64 = 20;

/// What an object with our label says of itself, and whether it can prove it.
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

/// Whether one more of a cluster's findings may be removed after so many in the last hour, where it has
/// so many objects of ours; the number to confirm where somebody has to say that they mean it.
///
/// # Errors
/// The number that was not confirmed.
pub fn may_remove(lately: u64, objects: u64, confirmed: Option<u64>) -> Result<(), u64> {
    let number = lately.saturating_add(1);
    let budget = MOST.min(objects / ONE_IN).max(1);
    if number <= budget || confirmed == Some(number) { Ok(()) } else { Err(number) }
}

/// Why a finding is not for Trueup to remove.
#[must_use]
pub const fn kept(kind: Kind, proved: bool) -> Option<&'static str> {
    if !proved {
        return Some(
            "it cannot prove that Trueup made it, so Trueup does not touch it; look whose it is, and \
             delete it with kubectl or take our label off",
        );
    }
    if matches!(kind, Kind::Namespace) {
        return Some(
            "a namespace takes everything in it along, whoever made it; look into it, and delete it \
             with kubectl",
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_of_count_and_share_asks_for_the_number() {
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
            let told = may_remove(lately, objects, confirmed);
            assert_eq!(told, expected, "{lately} of {objects}, {confirmed:?}");
        }
    }

    #[test]
    fn what_proves_nothing_and_what_takes_others_along_is_kept() {
        assert!(kept(Kind::ConfigMap, false).is_some());
        assert!(kept(Kind::Namespace, true).is_some());
        assert_eq!(kept(Kind::PersistentVolumeClaim, true), None);
    }
}
