//! The result of a dry-run pass: its objects and its preconditions.

use std::collections::BTreeSet;

use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::preview_request::{ExactField, ExactObject, ExactPreview, ExactVerb, Standing};

use super::{DryRunPass, footing, is_secret};
use crate::compare::fields::{Apart, compare};
use crate::render::names;
use crate::render::proof::ProofKey;

/// The metadata that is compared; the server sets the rest.
const METADATA: [&str; 4] = ["annotations", "finalizers", "labels", "ownerReferences"];
/// Our stamps, which change with every write.
const STAMPS: [&str; 3] =
    [names::GENERATION_LABEL, names::DIGEST_ANNOTATION, names::PROOF_ANNOTATION];

impl DryRunPass {
    /// The preview after the last dry run.
    pub(super) fn preview(&self, stops: Option<String>, proofs: &ProofKey) -> ExactPreview {
        let mut preview = ExactPreview { stops, ..ExactPreview::default() };
        let keys: BTreeSet<&ResourceKey> =
            self.live.keys().chain(self.observed.objects.keys()).collect();
        for key in keys {
            let (object, standing) = self.object(key, proofs);
            preview.footing.extend((object.verb != ExactVerb::Keep).then_some(standing));
            preview.objects.push(object);
        }
        preview
    }

    fn object(&self, key: &ResourceKey, proofs: &ProofKey) -> (ExactObject, Standing) {
        let (live, after) = (self.live.get(key), self.observed.objects.get(key));
        let tried = self.tried.get(key);
        let apart = match (live, after) {
            (Some(live), Some(after)) => compare(&compared(live), &compared(after)),
            (_, _) => Vec::new(),
        };
        let verb = match (live, after) {
            (None, _) => ExactVerb::Create,
            (Some(_), None) => ExactVerb::Delete,
            (Some(_), Some(_)) if tried.is_some_and(|tried| tried.gone) => ExactVerb::Replace,
            (Some(_), Some(_)) if apart.is_empty() => ExactVerb::Keep,
            (Some(_), Some(_)) => ExactVerb::Update,
        };
        let standing = Standing {
            key: key.clone(),
            uid: live.and_then(|live| live["metadata"]["uid"].as_str()).map(str::to_owned),
            fields: apart
                .iter()
                .map(|apart| {
                    let digest = footing::digest(self.order.unit, apart.before.as_ref(), proofs);
                    (apart.steps.clone(), digest)
                })
                .collect(),
        };
        let object = ExactObject {
            key: key.clone(),
            verb,
            fields: apart.into_iter().map(|apart| field(key.kind, apart)).collect(),
            refused: tried.and_then(|tried| tried.refused.clone()),
        };
        (object, standing)
    }
}

fn field(kind: Kind, apart: Apart) -> ExactField {
    let hidden = is_secret(kind) && apart.steps.first().is_some_and(|step| step != "metadata");
    let mask = || Value::from("(hidden)");
    let side = |value: Option<Value>| match value {
        Some(Value::Object(fields)) if hidden => {
            Some(fields.into_iter().map(|(name, _)| (name, mask())).collect())
        }
        Some(_) if hidden => Some(mask()),
        value => value,
    };
    ExactField { path: apart.path(), before: side(apart.before), after: side(apart.after) }
}

/// An object without status, server-set metadata and our stamps.
pub(super) fn compared(object: &Value) -> Value {
    let mut object = object.clone();
    let Some(fields) = object.as_object_mut() else { return object };
    fields.remove("status");
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        metadata.retain(|name, _| METADATA.contains(&name.as_str()));
        for place in ["annotations", "labels"] {
            if let Some(Value::Object(entries)) = metadata.get_mut(place) {
                entries.retain(|name, _| !STAMPS.contains(&name.as_str()));
            }
        }
    }
    object
}
