//! Whether what stands at a key is ours. A name or a label alone proves nothing.

use serde_json::Value;
use trueup_model::key::ResourceKey;
use trueup_model::order::Order;

use crate::render::names;
use crate::render::proof::ProofKey;

/// Whose an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ownership {
    /// It carries our proof, or it is the very incarnation that we recorded.
    Ours,
    /// Somebody else's: never written, never deleted.
    Foreign,
}

/// Judges what stands at one of the order's keys.
///
/// The proof binds cluster, unit and key, so an object that carries it was made by us or restored
/// from something made by us, whatever its uid. Without a valid proof, only the recorded uid counts:
/// that is our object after somebody stripped it.
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
