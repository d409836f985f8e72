//! The preconditions of an exact preview, and whether they still hold.
//!
//! Each object that the preview would write must have the same uid, and the same values in the
//! fields that would change. The resource version is too strict: it changes with every status
//! update, so the preview of a running service would never hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};
use trueup_model::key::ResourceKey;
use trueup_model::order::Unit;
use trueup_model::preview_request::Standing;

use super::result::compared;
use crate::compare::fields::at;
use crate::render::proof::ProofKey;

/// A hash of the requested order, its generation and the preconditions.
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

/// Whether the preconditions still hold for the live objects.
///
/// # Errors
/// The first precondition that failed, as a message.
pub fn holds(
    footing: &[Standing],
    unit: Unit,
    live: &BTreeMap<ResourceKey, Arc<Value>>,
    proofs: &ProofKey,
) -> Result<(), String> {
    footing.iter().try_for_each(|standing| check(standing, unit, live.get(&standing.key), proofs))
}

fn check(
    standing: &Standing,
    unit: Unit,
    live: Option<&Arc<Value>>,
    proofs: &ProofKey,
) -> Result<(), String> {
    let key = &standing.key;
    let (uid, live) = match (&standing.uid, live) {
        (None, None) => return Ok(()),
        (None, Some(_)) => return Err(format!("{key} exists now")),
        (Some(_), None) => return Err(format!("{key} no longer exists")),
        (Some(uid), Some(live)) => (uid, live),
    };
    if live["metadata"]["uid"] != **uid {
        return Err(format!("{key} was recreated"));
    }
    let live = compared(live);
    let changed = standing.fields.iter().find(|(steps, was)| {
        let now = at(&live, steps).filter(|now| !now.is_null());
        digest(unit, now, proofs) != *was
    });
    match changed {
        Some((steps, _)) => Err(format!("{key} changed: {} has another value", steps.join("."))),
        None => Ok(()),
    }
}

/// A keyed digest of a value, which may be a secret.
pub(super) fn digest(unit: Unit, value: Option<&Value>, proofs: &ProofKey) -> String {
    let text = value.map(Value::to_string).unwrap_or_default();
    proofs.digest(unit, text.as_bytes())
}
