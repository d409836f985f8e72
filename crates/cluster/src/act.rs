//! Executes one action of a plan, with preconditions and only within what the order permits.

pub(crate) mod absence;
pub(crate) mod brake;
pub(crate) mod fence;
pub(crate) mod force;
pub(crate) mod in_flight;
pub(crate) mod refusal;
pub(crate) mod restore_guard;
pub(crate) mod throttle;
use serde_json::{Value, json};
use trueup_model::crash;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;
use trueup_model::report::ObjectChange;
use trueup_rules::plan::Action;

use crate::executor::pass::Shared;
use crate::verbs::CallError;

impl Shared {
    /// Executes one action; returns the change to report, if any.
    pub(crate) async fn act(
        &self,
        order: &Order,
        action: &Action,
    ) -> Result<Option<ObjectChange>, CallError> {
        self.may_send()?;
        match action {
            Action::Apply { key, object, change } => {
                check_in_order(order, key)?;
                let live = self.cache().get(key);
                let now = self.clock.monotonic();
                self.refusals.check(key, object, live.as_deref(), now)?;
                crash::point("executor.applying").await;
                let answer = match is_create(change) {
                    // An existing object causes a conflict; the next plan decides who owns it.
                    true => self.cluster.apply(key, &create_only(object)).await,
                    false => self.cluster.apply(key, object).await,
                };
                let stored = self.refusals.note(key, object, answer, now)?;
                crash::point("executor.applied").await;
                self.cache().present(key.kind, stored);
                Ok(Some(change.clone()))
            }
            Action::Prune { key, patch, change } => {
                check_in_order(order, key)?;
                let guards = &patch["metadata"];
                if !self.is_unchanged(key, &guards["uid"], &guards["resourceVersion"]).await? {
                    return Ok(None);
                }
                let (live, now) = (self.cache().get(key), self.clock.monotonic());
                self.refusals.check(key, patch, live.as_deref(), now)?;
                self.may_send()?;
                crash::point("executor.pruning").await;
                let stored = self.cluster.patch(key, patch).await?;
                crash::point("executor.pruned").await;
                self.refusals.note_prune(key, patch, &stored);
                self.cache().present(key.kind, stored);
                Ok(Some(change.clone()))
            }
            Action::Delete { key, uid, version } => {
                check_in_order(order, key)?;
                let planned = (json!(uid), json!(version));
                if is_critical(key.kind) && !self.is_unchanged(key, &planned.0, &planned.1).await? {
                    return Ok(None);
                }
                self.may_send()?;
                crash::point("executor.deleting").await;
                self.cluster.delete(key, uid, version).await?;
                crash::point("executor.deleted").await;
                self.cache().terminating(key, uid);
                if Kind::READ.contains(&key.kind) {
                    // This kind is not watched: no event reports its deletion.
                    self.refresh(key).await?;
                }
                Ok(Some(ObjectChange::Removed { key: key.clone() }))
            }
            Action::ReleaseAnchor { key, uid, version, finalizers } => {
                check_in_order(order, key)?;
                if !self.is_unchanged(key, &json!(uid), &json!(version)).await? {
                    return Ok(None);
                }
                let patch = json!({"metadata": {
                    "uid": uid, "resourceVersion": version, "finalizers": finalizers }});
                self.may_send()?;
                crash::point("executor.releasing").await;
                let stored = self.cluster.patch(key, &patch).await?;
                crash::point("executor.released").await;
                self.cache().present(key.kind, stored);
                Ok(None)
            }
            Action::VerifyAbsence => Ok(None),
        }
    }

    /// Fails if the lease may have expired or the cluster rate limits us.
    ///
    /// Called right before each write: a read in between can take as long as the lease.
    pub(crate) fn may_send(&self) -> Result<(), CallError> {
        self.holds_lease()?;
        let pause = self.throttle.left(self.clock.monotonic());
        pause.map_or(Ok(()), |after| Err(CallError::Throttled { after }))
    }

    /// Fails if the lease may have expired.
    pub(crate) fn holds_lease(&self) -> Result<(), CallError> {
        let expired = || CallError::Unreachable("the lease on this cluster expired".to_owned());
        self.fence.is_open().then_some(()).ok_or_else(expired)
    }

    /// Whether the live object still has the uid and version that were planned on.
    ///
    /// The server checks the same preconditions; this check comes before anything is sent, and puts
    /// an object that differs into the cache for the next plan.
    async fn is_unchanged(
        &self,
        key: &ResourceKey,
        uid: &Value,
        version: &Value,
    ) -> Result<bool, CallError> {
        let Some(live) = self.cluster.get(key).await? else {
            self.cache().forget(key);
            return Ok(false);
        };
        let metadata = &live["metadata"];
        let same = metadata["uid"] == *uid && metadata["resourceVersion"] == *version;
        if !same {
            self.cache().present(key.kind, live);
        }
        Ok(same)
    }

    /// Reads the live object into the cache; returns whether it exists.
    pub(crate) async fn refresh(&self, key: &ResourceKey) -> Result<bool, CallError> {
        match self.cluster.get(key).await? {
            Some(object) => {
                self.cache().present(key.kind, object);
                Ok(true)
            }
            None => {
                self.cache().forget(key);
                Ok(false)
            }
        }
    }
}

/// The executor's own guard: a key outside the order is never written, whatever the plan says.
fn check_in_order(order: &Order, key: &ResourceKey) -> Result<(), CallError> {
    if order.recorded.contains_key(key) {
        Ok(())
    } else {
        Err(CallError::Refused(format!("{key} is not in the recorded keys of this order")))
    }
}

/// Whether the write is expected to create the object.
const fn is_create(change: &ObjectChange) -> bool {
    matches!(change, ObjectChange::Created { .. } | ObjectChange::DeletedExternally { .. })
}

/// The object for a create-only server-side apply.
///
/// A forced apply would take over a foreign object of the same name. A resourceVersion is ignored
/// on create and checked on update, and no object ever has version 1: an empty store begins with
/// it. So this apply either creates the object or fails with a conflict.
pub(crate) fn create_only(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]["resourceVersion"] = json!("1");
    object
}

/// Kinds whose deletion also deletes data or other objects.
const fn is_critical(kind: Kind) -> bool {
    matches!(kind, Kind::Namespace | Kind::PersistentVolumeClaim | Kind::StatefulSet)
}
