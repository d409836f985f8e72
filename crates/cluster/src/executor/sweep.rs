//! What carries our label and belongs to nobody: finding it, and removing one that somebody asked for.

use serde_json::{Value, json};
use trueup_model::finding::{Finding, SweepResult};
use trueup_model::key::Kind;
use trueup_rules::plan::finding::{candidate, kept};
use trueup_rules::render::names::ANCHOR_FINALIZER;

use super::{Executor, Work};
use crate::verbs::CallError;

impl Work {
    /// Tells what of a kind no order knows, and that there is nothing where that is so.
    pub(super) fn sweep(&self, kind: Kind, objects: &[Value]) {
        let unknown = |object: &Value| {
            let (candidate, unit) = candidate(kind, object, &self.shared.proofs);
            let slot = unit.and_then(|unit| self.slots.get(&unit));
            let known = slot.is_some_and(|slot| slot.order.recorded.contains_key(&candidate.key));
            (!known).then_some(candidate)
        };
        let candidates = objects.iter().filter_map(unknown).collect();
        self.notices.swept(SweepResult { kind, candidates });
    }
}

impl Executor {
    /// Removes what a sweep found, if it is exactly what was found: by uid and version, with its proof
    /// looked at once more. What is gone already is a success.
    ///
    /// # Errors
    /// The cluster cannot be asked, refuses, or has something else there now.
    pub async fn remove(&self, found: &Finding) -> Result<(), CallError> {
        let shared = &self.shared;
        shared.holds_lease()?;
        if let Some(freeze) = shared.brake.now() {
            return Err(CallError::Refused(freeze.to_string()));
        }
        let live = shared.cluster.get(&found.key).await?;
        let Some(live) = live.filter(|live| live["metadata"]["uid"] == found.uid) else {
            return Ok(());
        };
        let (now, _) = candidate(found.key.kind, &live, &shared.proofs);
        if let Some(why) = kept(found.key.kind, now.proved) {
            return Err(CallError::Refused(why.to_owned()));
        }
        if now.resource_version != found.resource_version {
            let why =
                "it changed since it was seen; look at it, and ask again after the next sweep";
            return Err(CallError::Conflict(why.to_owned()));
        }
        // Reading takes its time.
        shared.holds_lease()?;
        let version = self.let_go(found, &live).await?;
        shared.holds_lease()?;
        shared.cluster.delete(&found.key, &found.uid, &version).await
    }

    /// Takes our own finalizer off, which would keep it for ever; answers with its version then.
    async fn let_go(&self, found: &Finding, live: &Value) -> Result<String, CallError> {
        let held = live["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let others: Vec<&Value> = held.iter().filter(|one| **one != ANCHOR_FINALIZER).collect();
        if others.len() == held.len() {
            return Ok(found.resource_version.clone());
        }
        let patch = json!({ "metadata": { "uid": found.uid, "finalizers": others,
            "resourceVersion": found.resource_version } });
        let stored = self.shared.cluster.patch(&found.key, &patch).await?;
        Ok(stored["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned())
    }
}
