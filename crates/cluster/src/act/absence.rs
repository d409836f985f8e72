//! Proving absence: fresh reads of every key ever recorded, and of the volumes behind the claims.
//!
//! An answer that is missing is not absence: any error ends the proof.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;
use trueup_model::receipt::{Absence, LostPod, ProofLevel, Reading, Receipt};
use trueup_model::report::Outcome;
use trueup_rules::plan::{Ownership, ownership, volume_left};

use crate::act::in_flight::Echoes;
use crate::executor::pass::{Shared, failure};
use crate::verbs::{CallError, Cluster, Scope};

/// How many reads run side by side.
pub(crate) const WIDTH: usize = 8;

/// What a try to prove absence came to.
pub(crate) enum Proof {
    /// Nothing is left, and nothing can come any more.
    Closed(Box<Receipt>),
    /// Something is still there; the cache knows it now.
    Present,
    /// Not now.
    Open {
        /// What is waited for.
        outcome: Outcome,
        /// When to try again, if that is known.
        at: Option<Duration>,
    },
}

/// Reads everything afresh and closes the deletion, if that may be done.
pub(crate) async fn prove(shared: &Shared, order: &Order, echoes: &mut Echoes) -> Proof {
    let (began, began_at) = (shared.clock.monotonic(), shared.clock.now());
    match read(shared, order).await {
        Ok(Found::Nothing) => {}
        Ok(Found::Objects(objects)) => {
            echoes.first = None;
            for (key, object) in objects {
                shared.cache().present(key.kind, object);
            }
            return Proof::Present;
        }
        Ok(Found::Volume(volume)) => {
            echoes.first = None;
            return Proof::Open { outcome: volume_left(&volume), at: None };
        }
        Err(error) => return Proof::Open { outcome: failure(&error), at: None },
    }
    let reading = Reading { began_at, ended_at: shared.clock.now() };
    let over = shared.echo_over.max(echoes.over(shared.echo));
    if began < over {
        echoes.first.get_or_insert(reading);
        let on = "a second read: a call may still have been under way at the first";
        return Proof::Open { outcome: Outcome::Waiting { on: on.to_owned() }, at: Some(over) };
    }
    let lost = shared.cache().lost_pods(order);
    let reads = echoes.first.into_iter().chain([reading]).collect();
    Proof::Closed(Box::new(receipt(order, echoes, &shared.observer, reads, lost)))
}

fn receipt(
    order: &Order,
    echoes: &Echoes,
    observer: &str,
    reads: Vec<Reading>,
    unconfirmed: Vec<LostPod>,
) -> Receipt {
    let absence = |(key, uid): (&ResourceKey, &Option<String>)| Absence {
        key: key.clone(),
        uid: uid.clone(),
        resource_version: echoes.versions.get(key).cloned(),
    };
    let absent = order.recorded.iter().map(absence).collect();
    let level = if unconfirmed.is_empty() {
        ProofLevel::ApiAbsence
    } else {
        ProofLevel::ProcessesUnconfirmed
    };
    // Another process may have looked, and sent the delete, before this one.
    let survey = echoes.survey.clone().or_else(|| order.permit.survey.clone());
    Receipt { unconfirmed, level, survey, ..Receipt::of_absence(absent, observer, reads) }
}

/// What the reads found.
enum Found {
    Nothing,
    /// These are still there, as read.
    Objects(Vec<(ResourceKey, Value)>),
    /// This volume is still there behind a claim that is gone.
    Volume(Value),
}

/// What stands at a key now. A kind that is not served has no objects: they went with it, or never came.
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
    // Somebody else's object under a key of ours is not ours to be gone.
    let (ours, foreign): (Vec<_>, Vec<_>) = present.into_iter().partition(|(key, object)| {
        ownership(order, key, object, &shared.proofs) == Ownership::Ours
    });
    if !ours.is_empty() {
        return Ok(Found::Objects(ours));
    }
    let left = left_volumes(cluster, order, &foreign).await?.into_iter().next();
    Ok(left.map_or(Found::Nothing, Found::Volume))
}

/// The volumes that still belong to one of our claims: by the claim's uid, or by its key, which finds
/// the disk of an incarnation that was replaced. Not those behind somebody else's claim.
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
