//! Proves absence: live reads of every key ever recorded, and of the volumes behind the claims.
//!
//! An unreachable object is not an absent object: any error ends the proof.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;
use trueup_model::receipt::{Absence, LostPod, ProofLevel, Reading, Receipt};
use trueup_model::report::Outcome;
use trueup_rules::plan::{Ownership, ownership, volume_left};

use crate::act::in_flight::PassMemory;
use crate::executor::pass::{Shared, failure};
use crate::verbs::{CallError, Cluster, Scope};

/// How many reads run at once.
pub(crate) const WIDTH: usize = 8;

/// The result of an attempt to prove absence.
pub(crate) enum Proof {
    /// Nothing is left, and no call in flight can create anything.
    Closed(Box<Receipt>),
    /// Some objects still exist; they are in the cache now.
    Present,
    /// Not proved yet.
    Open {
        /// What the pass waits for.
        outcome: Outcome,
        /// When to retry, if that is known.
        at: Option<Duration>,
    },
}

/// Reads every key live and returns the receipt if absence is proved.
pub(crate) async fn prove(shared: &Shared, order: &Order, memory: &mut PassMemory) -> Proof {
    let (began, began_at) = (shared.clock.monotonic(), shared.clock.now());
    match read(shared, order).await {
        Ok(Found::Nothing) => {}
        Ok(Found::Objects(objects)) => {
            memory.first = None;
            for (key, object) in objects {
                shared.cache().present(key.kind, object);
            }
            return Proof::Present;
        }
        Ok(Found::Volume(volume)) => {
            memory.first = None;
            return Proof::Open { outcome: volume_left(&volume), at: None };
        }
        Err(error) => return Proof::Open { outcome: failure(&error), at: None },
    }
    let reading = Reading { began_at, ended_at: shared.clock.now() };
    let over = shared.in_flight_until.max(memory.over(shared.in_flight));
    if began < over {
        memory.first.get_or_insert(reading);
        let on = "a second read; a call may have been in flight during the first";
        return Proof::Open { outcome: Outcome::Waiting { on: on.to_owned() }, at: Some(over) };
    }
    let lost = shared.cache().lost_pods(order);
    let reads = memory.first.into_iter().chain([reading]).collect();
    Proof::Closed(Box::new(receipt(order, memory, &shared.observer, reads, lost)))
}

fn receipt(
    order: &Order,
    memory: &PassMemory,
    observer: &str,
    reads: Vec<Reading>,
    unconfirmed: Vec<LostPod>,
) -> Receipt {
    let absence = |(key, uid): (&ResourceKey, &Option<String>)| Absence {
        key: key.clone(),
        uid: uid.clone(),
        resource_version: memory.versions.get(key).cloned(),
    };
    let absent = order.recorded.iter().map(absence).collect();
    let level = if unconfirmed.is_empty() {
        ProofLevel::ApiAbsence
    } else {
        ProofLevel::ProcessesUnconfirmed
    };
    // Another process may have surveyed the namespace and sent the delete before this one.
    let survey = memory.survey.clone().or_else(|| order.permit.survey.clone());
    Receipt { unconfirmed, level, survey, ..Receipt::of_absence(absent, observer, reads) }
}

/// The result of the reads.
enum Found {
    Nothing,
    /// These still exist, as read.
    Objects(Vec<(ResourceKey, Value)>),
    /// This volume still exists behind a claim that is gone.
    Volume(Value),
}

/// The live object at a key. An optional kind that is not served has no objects.
pub(crate) async fn find(
    cluster: &dyn Cluster,
    key: &ResourceKey,
) -> Result<Option<Value>, CallError> {
    match cluster.get(key).await {
        Err(CallError::UnknownKind(_)) if key.kind.is_optional() => Ok(None),
        answer => answer,
    }
}

async fn read(shared: &Shared, order: &Order) -> Result<Found, CallError> {
    let cluster = &*shared.cluster;
    let present: Vec<(ResourceKey, Value)> = stream::iter(order.recorded.keys().cloned())
        .map(|key| async move {
            let found = find(cluster, &key).await?;
            Ok::<_, CallError>(found.map(|object| (key, object)))
        })
        .buffer_unordered(WIDTH)
        .try_filter_map(|found| async move { Ok(found) })
        .try_collect()
        .await?;
    // A foreign object at one of our keys does not count as left over.
    let (ours, foreign): (Vec<_>, Vec<_>) = present.into_iter().partition(|(key, object)| {
        ownership(order, key, object, &shared.proofs) == Ownership::Ours
    });
    if !ours.is_empty() {
        return Ok(Found::Objects(ours));
    }
    let left = left_volumes(cluster, order, &foreign).await?.into_iter().next();
    Ok(left.map_or(Found::Nothing, Found::Volume))
}

/// The volumes that still belong to one of our claims, by the claim's uid or by its key.
///
/// The key also finds the volume of a claim that was replaced. Volumes of foreign claims are left
/// out.
pub(crate) async fn left_volumes(
    cluster: &dyn Cluster,
    order: &Order,
    foreign: &[(ResourceKey, Value)],
) -> Result<Vec<Value>, CallError> {
    let claims: Vec<(&ResourceKey, Option<&str>)> = order
        .recorded
        .iter()
        .filter(|(key, _)| key.kind == Kind::PersistentVolumeClaim)
        .map(|(key, uid)| (key, uid.as_deref()))
        .collect();
    if claims.is_empty() {
        return Ok(Vec::new());
    }
    let theirs = |uid: &Value| foreign.iter().any(|(_, object)| object["metadata"]["uid"] == *uid);
    let volumes = cluster.list(Kind::PersistentVolume, Scope::All).await?;
    let is_ours = |volume: &Value| {
        let of = &volume["spec"]["claimRef"];
        claims.iter().any(|(key, uid)| {
            let same_uid = uid.is_some_and(|uid| of["uid"] == uid);
            let same_key =
                of["namespace"] == key.namespace.as_str() && of["name"] == key.name.as_str();
            same_uid || (same_key && !theirs(&of["uid"]))
        })
    };
    Ok(volumes.objects.into_iter().filter(is_ours).collect())
}
