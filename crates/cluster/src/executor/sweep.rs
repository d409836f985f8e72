//! Sweep for orphaned objects, and removal of a finding that an operator requested.

use serde_json::{Value, json};
use trueup_model::finding::{Finding, SweepResult};
use trueup_model::key::Kind;
use trueup_rules::plan::finding::{candidate, kept};
use trueup_rules::render::names::ANCHOR_FINALIZER;

use super::{Executor, Work};
use crate::verbs::CallError;

impl Work {
    /// Reports labelled objects of a kind that no order records; an empty result is reported, too.
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
    /// Removes a finding if the object still has the same uid and version, and a valid proof. An
    /// object that is already gone is a success.
    ///
    /// # Errors
    /// The cluster is unavailable or rejects the removal, or the object has changed.
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
            let why = "it changed since the sweep; inspect it, then request removal again";
            return Err(CallError::Conflict(why.to_owned()));
        }
        // The read above can outlast the lease.
        shared.holds_lease()?;
        let version = self.remove_finalizer(found, &live).await?;
        shared.holds_lease()?;
        shared.cluster.delete(&found.key, &found.uid, &version).await
    }

    /// Removes our own finalizer, which would block the deletion; returns the new version.
    async fn remove_finalizer(&self, found: &Finding, live: &Value) -> Result<String, CallError> {
        let finalizers = live["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let others: Vec<&Value> =
            finalizers.iter().filter(|one| **one != ANCHOR_FINALIZER).collect();
        if others.len() == finalizers.len() {
            return Ok(found.resource_version.clone());
        }
        let patch = json!({ "metadata": { "uid": found.uid, "finalizers": others,
            "resourceVersion": found.resource_version } });
        let stored = self.shared.cluster.patch(&found.key, &patch).await?;
        Ok(stored["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned())
    }
}
