//! Hashes of intervals, so that a repeated one is recognised for ever.
//!
//! SHA-256 over netstrings (`5:hello,`), so that fields cannot be confused.

use sha2::{Digest, Sha256};
use trueup_model::usage::{EvidenceHash, Quantity, UsageInterval};

/// The version of the encoding; part of what is hashed.
const FORMAT: &str = "trueup interval 1";

/// The identity of an interval: the same while its open end grows.
#[must_use]
pub fn identity(interval: &UsageInterval) -> EvidenceHash {
    fields(&beginning(interval))
}

/// The hash of everything that an interval charges for a moment in it. A correction has another one.
///
/// Its end is not part of it: a line says which part of the interval it charges, and an interval
/// that grew afterwards is still the one that was charged.
#[must_use]
pub fn content(interval: &UsageInterval) -> EvidenceHash {
    let owner = &interval.owner;
    let (counted, amount) = match interval.quantity {
        Quantity::PerSecond(units) => ("per_second", units),
        Quantity::Total(units) => ("total", units),
    };
    let mut all = beginning(interval);
    all.extend([
        owner.org.to_string(),
        owner.project.map(|project| project.to_string()).unwrap_or_default(),
        owner.service.map(|service| service.to_string()).unwrap_or_default(),
        interval.plan.as_ref().map(ToString::to_string).unwrap_or_default(),
        counted.to_owned(),
        amount.to_string(),
        interval.delivery.to_string(),
        interval.basis.to_string(),
        interval.simulated.to_string(),
    ]);
    fields(&all)
}

fn beginning(interval: &UsageInterval) -> Vec<String> {
    let first = &interval.provenance.first;
    vec![
        FORMAT.to_owned(),
        first.observer.clone(),
        first.epoch.to_string(),
        interval.object.clone(),
        interval.meter.to_string(),
        interval.span.from.as_microsecond().to_string(),
    ]
}

/// The hash of a list of texts.
pub(crate) fn fields(fields: &[String]) -> EvidenceHash {
    let mut hash = Sha256::new();
    for field in fields {
        hash.update(format!("{}:{field},", field.len()));
    }
    EvidenceHash::new(hash.finalize().into())
}
