//! Proving absence: fresh reads of every key ever recorded, and of the volumes behind the claims.
//!
//! An answer that is missing is not absence: any error ends the proof.

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;
use trueup_model::Clock;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;
use trueup_model::receipt::{Absence, ProofLevel, Receipt};
use trueup_rules::plan::{Ownership, ownership};
use trueup_rules::proof::ProofKey;

use crate::verbs::{CallError, Cluster, Scope};

/// How many reads run side by side.
const WIDTH: usize = 8;

/// What the reads found.
pub(crate) enum Verified {
    /// Nothing is left.
    Absent(Receipt),
    /// These are still there, as read.
    Present(Vec<(ResourceKey, Value)>),
    /// A volume is still there behind a claim that is gone.
    VolumeLeft(String),
}

pub(crate) async fn verify(
    cluster: &dyn Cluster,
    order: &Order,
    proofs: &ProofKey,
    clock: &dyn Clock,
    observer: &str,
) -> Result<Verified, CallError> {
    let began_at = clock.now();
    let present: Vec<(ResourceKey, Value)> = stream::iter(order.recorded.keys().cloned())
        .map(|key| async move {
            let found = match cluster.get(&key).await {
                // A kind that is not served has no objects: they went with it, or never came.
                Err(CallError::UnknownKind(_)) if key.kind.is_optional() => None,
                answer => answer?,
            };
            Ok::<_, CallError>(found.map(|object| (key, object)))
        })
        .buffer_unordered(WIDTH)
        .try_filter_map(|found| async move { Ok(found) })
        .try_collect()
        .await?;
    // Somebody else's object under a key of ours is not ours to be gone.
    let ours: Vec<_> = present
        .into_iter()
        .filter(|(key, object)| ownership(order, key, object, proofs) == Ownership::Ours)
        .collect();
    if !ours.is_empty() {
        return Ok(Verified::Present(ours));
    }
    if let Some(volume) = volume_left(cluster, order).await? {
        return Ok(Verified::VolumeLeft(volume));
    }
    let absent = order
        .recorded
        .iter()
        .map(|(key, uid)| Absence { key: key.clone(), uid: uid.clone() })
        .collect();
    Ok(Verified::Absent(Receipt {
        absent,
        observer: observer.to_owned(),
        began_at,
        verified_at: clock.now(),
        level: ProofLevel::ApiAbsence,
    }))
}

/// The first volume that still belongs to one of our claims, by the claim's uid.
async fn volume_left(cluster: &dyn Cluster, order: &Order) -> Result<Option<String>, CallError> {
    let claims: Vec<&str> = order
        .recorded
        .iter()
        .filter(|(key, _)| key.kind == Kind::PersistentVolumeClaim)
        .filter_map(|(_, uid)| uid.as_deref())
        .collect();
    if claims.is_empty() {
        return Ok(None);
    }
    let volumes = cluster.list(Kind::PersistentVolume, Scope::All).await?;
    Ok(volumes
        .objects
        .iter()
        .find(|volume| {
            volume["spec"]["claimRef"]["uid"].as_str().is_some_and(|uid| claims.contains(&uid))
        })
        .and_then(|volume| volume["metadata"]["name"].as_str().map(str::to_owned)))
}
