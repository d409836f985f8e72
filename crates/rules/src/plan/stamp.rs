//! What the stamp of an object says about our last write.

use serde_json::Value;
use trueup_model::order::Order;

use crate::compare::diff::first_difference;
use crate::compare::owner;
use crate::compare::path::{Path, PathSegment};
use crate::render::proof::ProofKey;
use crate::render::{Rendered, names};

/// What the stamp of an object says about our last write.
pub(super) enum Stamp {
    /// We wrote the desired state: every difference is the work of another writer.
    Current,
    /// We wrote something else: the desired state has changed since, and a difference may be our
    /// own older value.
    Older,
    /// Another writer edited the stamp or the generation label. What we wrote is not known.
    Edited(StampEdit),
}

/// An edited stamp or generation label.
pub(super) struct StampEdit {
    /// The path of the field.
    pub(super) field: String,
    /// The value that we write.
    pub(super) wanted: Value,
    /// The live value.
    pub(super) live: Value,
    /// The field manager, if the server recorded one.
    pub(super) by: Option<String>,
}

/// Whether our last write of an object was this one.
pub(super) fn is_stamped(order: &Order, proofs: &ProofKey, wrote: &Rendered, live: &Value) -> bool {
    let stamp = &live["metadata"]["annotations"][names::DIGEST_ANNOTATION];
    let stamped = proofs.stamped(order.unit, &wrote.key, stamp.as_str().unwrap_or_default());
    stamped.is_some_and(|(digest, _)| digest == wrote.digest)
}

/// Reads the stamp of a live object.
pub(super) fn stamp(order: &Order, proofs: &ProofKey, wanted: &Rendered, live: &Value) -> Stamp {
    let metadata = &live["metadata"];
    let edited = |place: &'static str, name: &'static str, wanted: String| {
        let path = Path(["metadata", place, name].map(PathSegment::Field).to_vec());
        Stamp::Edited(StampEdit {
            field: path.to_string(),
            wanted: wanted.into(),
            live: metadata[place][name].clone(),
            by: owner::of(live, &path),
        })
    };
    let stamp = metadata["annotations"][names::DIGEST_ANNOTATION].as_str().unwrap_or_default();
    match proofs.stamped(order.unit, &wanted.key, stamp) {
        // Written by an older Trueup without signed stamps, and unchanged since.
        None if stamp == wanted.digest && first_difference(&wanted.object, live).is_none() => {
            Stamp::Older
        }
        None => {
            let ours = proofs.stamp(order.unit, &wanted.key, &wanted.digest, order.generation);
            edited("annotations", names::DIGEST_ANNOTATION, ours)
        }
        Some((digest, _)) if digest != wanted.digest => Stamp::Older,
        Some((_, generation)) => {
            let label = metadata["labels"][names::GENERATION_LABEL].as_str();
            if label == Some(generation.to_string().as_str()) {
                Stamp::Current
            } else {
                edited("labels", names::GENERATION_LABEL, generation.to_string())
            }
        }
    }
}
