//! What a plan stands on, and whether it is still there.
//!
//! Each object that the plan would touch has to be the same incarnation, with the same values in the
//! fields that would change. A version would say more than that: it changes with every status, and a plan
//! for a service that lives would never hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};
use trueup_model::key::ResourceKey;
use trueup_model::order::Unit;
use trueup_model::preview_request::Standing;

use super::tell::compared;
use crate::compare::fields::at;
use crate::render::proof::ProofKey;

/// A hash of all that a plan stands on: what is asked for, the generation, and what it was found on.
#[must_use]
pub fn hash(order_digest: &str, generation: i64, footing: &[Standing]) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("{order_digest}\0{generation}"));
    for standing in footing {
        let uid = standing.uid.as_deref().unwrap_or_default();
        hash.update(format!("\0\0{}\0{uid}", standing.key));
        for (steps, digest) in &standing.fields {
            hash.update(format!("\0{}\0{digest}", steps.join("\0")));
        }
    }
    data_encoding::HEXLOWER.encode(&hash.finalize()[..16])
}

/// Whether a plan still holds on what stands there.
///
/// # Errors
/// The first thing that is otherwise, in words.
pub fn holds(
    footing: &[Standing],
    unit: Unit,
    live: &BTreeMap<ResourceKey, Arc<Value>>,
    proofs: &ProofKey,
) -> Result<(), String> {
    footing.iter().try_for_each(|standing| stands(standing, unit, live.get(&standing.key), proofs))
}

fn stands(
    standing: &Standing,
    unit: Unit,
    live: Option<&Arc<Value>>,
    proofs: &ProofKey,
) -> Result<(), String> {
    let key = &standing.key;
    let (uid, live) = match (&standing.uid, live) {
        (None, None) => return Ok(()),
        (None, Some(_)) => return Err(format!("{key} is there now")),
        (Some(_), None) => return Err(format!("{key} is not there any more")),
        (Some(uid), Some(live)) => (uid, live),
    };
    if live["metadata"]["uid"] != **uid {
        return Err(format!("{key} was made anew"));
    }
    let live = compared(live);
    let changed = standing.fields.iter().find(|(steps, was)| {
        let now = at(&live, steps).filter(|now| !now.is_null());
        digest(unit, now, proofs) != *was
    });
    match changed {
        Some((steps, _)) => Err(format!("{key} has another {} now", steps.join("."))),
        None => Ok(()),
    }
}

/// A digest of a value that says nothing about it without the key: it may be a secret.
pub(super) fn digest(unit: Unit, value: Option<&Value>, proofs: &ProofKey) -> String {
    let text = value.map(Value::to_string).unwrap_or_default();
    proofs.digest(unit, text.as_bytes())
}
