//! Carrying out one action of a plan: guarded, and nothing but what the order allows.

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
    /// Carries out one action; answers what to tell the event log.
    pub(crate) async fn act(
        &self,
        order: &Order,
        action: &Action,
    ) -> Result<Option<ObjectChange>, CallError> {
        self.may_send()?;
        match action {
            Action::Apply { key, object, change } => {
                in_order(order, key)?;
                let live = self.cache().get(key);
                let now = self.clock.monotonic();
                self.refusals.check(key, object, live.as_deref(), now)?;
                crash::point("executor.applying").await;
                let answer = match is_new(change) {
                    // What stands there already makes a conflict; the next plan judges whose it is.
                    true => self.cluster.apply(key, &only_new(object)).await,
                    false => self.cluster.apply(key, object).await,
                };
                let stored = self.refusals.note(key, object, answer, now)?;
                crash::point("executor.applied").await;
                self.cache().present(key.kind, stored);
                Ok(Some(change.clone()))
            }
            Action::Prune { key, patch, change } => {
                in_order(order, key)?;
                let guards = &patch["metadata"];
                if !self.is_still(key, &guards["uid"], &guards["resourceVersion"]).await? {
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
                in_order(order, key)?;
                let judged = (json!(uid), json!(version));
                if is_critical(key.kind) && !self.is_still(key, &judged.0, &judged.1).await? {
                    return Ok(None);
                }
                self.may_send()?;
                crash::point("executor.deleting").await;
                self.cluster.delete(key, uid, version).await?;
                crash::point("executor.deleted").await;
                self.cache().terminating(key, uid);
                if Kind::READ.contains(&key.kind) {
                    // No watch will say that it is gone.
                    self.is_taken(key).await?;
                }
                Ok(Some(ObjectChange::Removed { key: key.clone() }))
            }
            Action::ReleaseAnchor { key, uid, version, finalizers } => {
                in_order(order, key)?;
                if !self.is_still(key, &json!(uid), &json!(version)).await? {
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

    /// Says no once the lease may be over, or while the cluster asks to be left alone. Asked right before each
    /// write: a read in between can take as long as the lease.
    pub(crate) fn may_send(&self) -> Result<(), CallError> {
        self.holds_lease()?;
        let pause = self.throttle.left(self.clock.monotonic());
        pause.map_or(Ok(()), |after| Err(CallError::Throttled { after }))
    }

    /// Says no once the lease may be over.
    pub(crate) fn holds_lease(&self) -> Result<(), CallError> {
        let over = || CallError::Unreachable("the lease on this cluster is over".to_owned());
        self.fence.is_open().then_some(()).ok_or_else(over)
    }

    /// Whether what was judged is what stands there now, by a read that no cache answers. Guards on
    /// uid and version hold at the server, too; this tells before anything is sent, and what is
    /// different goes into the cache for the next plan.
    async fn is_still(
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

    /// What really stands there now, whatever was heard of it.
    pub(crate) async fn is_taken(&self, key: &ResourceKey) -> Result<bool, CallError> {
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

/// The executor's own guard: whatever a plan says, a key outside of the order is never touched.
fn in_order(order: &Order, key: &ResourceKey) -> Result<(), CallError> {
    if order.recorded.contains_key(key) {
        Ok(())
    } else {
        Err(CallError::Refused(format!("{key} is not part of this order")))
    }
}

/// Whether a write makes something that nobody has seen there.
const fn is_new(change: &ObjectChange) -> bool {
    matches!(change, ObjectChange::Created { .. } | ObjectChange::DeletedExternally { .. })
}

/// The object as it is applied where nothing may stand yet. A name is no proof, and applying by force
/// would take over whatever somebody else put there. A version says nothing about an object that is
/// not there, and no object ever has this one: an empty store begins with it.
pub(crate) fn only_new(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]["resourceVersion"] = json!("1");
    object
}

/// What takes data, or everything else, along when it goes.
const fn is_critical(kind: Kind) -> bool {
    matches!(kind, Kind::Namespace | Kind::PersistentVolumeClaim | Kind::StatefulSet)
}
