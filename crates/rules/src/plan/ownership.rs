//! Whether an object belongs to Trueup. A name or a label alone proves nothing.

use serde_json::Value;
use trueup_model::key::ResourceKey;
use trueup_model::order::Order;

use crate::render::names;
use crate::render::proof::ProofKey;

/// Who owns an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ownership {
    /// It has our proof, or the uid that we recorded.
    Ours,
    /// Owned by others: never written, never deleted.
    Foreign,
}

/// Who owns the object at one of the order's keys.
///
/// The proof binds cluster, unit and key, so an object with a valid one was created by us, or
/// restored from such an object, whatever its uid. Without a valid proof only the recorded uid
/// counts: that is our object with its annotations removed.
#[must_use]
pub fn ownership(order: &Order, key: &ResourceKey, object: &Value, proofs: &ProofKey) -> Ownership {
    let metadata = &object["metadata"];
    let proved = metadata["annotations"][names::PROOF_ANNOTATION]
        .as_str()
        .is_some_and(|proof| proofs.holds(order.unit, key, proof));
    let recorded = order.recorded.get(key).and_then(Option::as_deref);
    let known = recorded.is_some() && recorded == metadata["uid"].as_str();
    if proved || known { Ownership::Ours } else { Ownership::Foreign }
}
