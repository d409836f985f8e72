//! Force-completes a deletion: nothing more is deleted, and the receipt names what is unproven.
//!
//! Everything is read once more, so that the receipt states exactly what is known.

use futures::{StreamExt, stream};
use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Body, Order};
use trueup_model::receipt::{Absence, Force, ProofLevel, Reading, Receipt, Unproven};
use trueup_model::survey::{Remains, Unread};
use trueup_rules::plan::survey::remains;
use trueup_rules::plan::{Ownership, ownership};
use trueup_rules::render::names;

use crate::act::absence::{WIDTH, find, left_volumes};
use crate::act::in_flight::PassMemory;
use crate::executor::pass::Shared;
use crate::verbs::{CallError, Cluster, Scope};

/// Kinds that create pods.
const WORKLOADS: [Kind; 4] = [Kind::Deployment, Kind::StatefulSet, Kind::CronJob, Kind::Job];

/// A key, its last known uid, and the result of reading it.
type Answered = (ResourceKey, Option<String>, Result<Option<Value>, CallError>);

/// Reads everything once more and returns a receipt of what is proved and what is not.
pub(crate) async fn force_complete(
    shared: &Shared,
    order: &Order,
    memory: &PassMemory,
    force: &Force,
) -> Receipt {
    let (began, began_at) = (shared.clock.monotonic(), shared.clock.now());
    let cluster = &*shared.cluster;
    let (mut absent, mut unproven, mut foreign) = (Vec::new(), Vec::new(), Vec::new());
    for (key, uid, answer) in read(cluster, order).await {
        match answer {
            Ok(Some(object)) if is_ours(shared, order, &key, &object) => {
                unproven.push(still_there(key, &object));
            }
            Ok(found) => {
                let resource_version = memory.versions.get(&key).cloned();
                foreign.extend(found.map(|object| (key.clone(), object)));
                absent.push(Absence { key, uid, resource_version });
            }
            Err(error) => {
                unproven.push(Unproven { key, uid, why: format!("could not be read: {error}") });
            }
        }
    }
    unproven.extend(pods_left(cluster, order).await);
    unproven.extend(volumes_left(cluster, order, &foreign).await);
    let remains = left_inside(cluster, order, &unproven).await;
    // If the pods or volumes behind a key could not be read, its own absence proves too little.
    absent.retain(|absence: &Absence| unproven.iter().all(|left| left.key != absence.key));
    let unconfirmed = shared.cache().lost_pods(order);
    let over = shared.in_flight_until.max(memory.over(shared.in_flight));
    let proved = unproven.is_empty() && unconfirmed.is_empty() && began >= over;
    let reading = Reading { began_at, ended_at: shared.clock.now() };
    Receipt {
        unproven,
        unconfirmed,
        level: if proved { ProofLevel::ApiAbsence } else { ProofLevel::Forced },
        force: Some(force.clone()),
        remains,
        ..Receipt::of_absence(absent, &shared.observer, vec![reading])
    }
}

/// Reads every recorded key; an error on one key does not stop the others.
async fn read(cluster: &dyn Cluster, order: &Order) -> Vec<Answered> {
    let mut read: Vec<Answered> = stream::iter(order.recorded.clone())
        .map(|(key, uid)| async move {
            let answer = find(cluster, &key).await;
            (key, uid, answer)
        })
        .buffer_unordered(WIDTH)
        .collect()
        .await;
    read.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    read
}

fn is_ours(shared: &Shared, order: &Order, key: &ResourceKey, object: &Value) -> bool {
    ownership(order, key, object, &shared.proofs) == Ownership::Ours
}

fn still_there(key: ResourceKey, object: &Value) -> Unproven {
    let uid = object["metadata"]["uid"].as_str().map(str::to_owned);
    Unproven { key, uid, why: "it still exists".to_owned() }
}

/// Pods that the API still lists: on a lost node, they outlive everything else.
async fn pods_left(cluster: &dyn Cluster, order: &Order) -> Vec<Unproven> {
    let Body::Service(body) = &order.body else { return Vec::new() };
    match cluster.list(Kind::Pod, Scope::Ours).await {
        Ok(list) => list
            .objects
            .iter()
            .filter(|pod| {
                let metadata = &pod["metadata"];
                metadata["namespace"] == order.namespace.as_str()
                    && metadata["labels"][names::POD_LABEL] == body.object_name.as_str()
            })
            .map(|pod| {
                let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                still_there(ResourceKey::new(Kind::Pod, &order.namespace, name), pod)
            })
            .collect(),
        Err(error) => unread_behind(order, &WORKLOADS, "its pods", &error),
    }
}

/// Volumes that still exist behind the claims.
async fn volumes_left(
    cluster: &dyn Cluster,
    order: &Order,
    foreign: &[(ResourceKey, Value)],
) -> Vec<Unproven> {
    match left_volumes(cluster, order, foreign).await {
        Ok(volumes) => volumes
            .iter()
            .map(|volume| {
                let name = volume["metadata"]["name"].as_str().unwrap_or_default();
                still_there(ResourceKey::new(Kind::PersistentVolume, "", name), volume)
            })
            .collect(),
        Err(error) => unread_behind(order, &[Kind::PersistentVolumeClaim], "its volume", &error),
    }
}

/// Foreign objects in a project's namespace, if the namespace is not proved to be gone.
async fn left_inside(
    cluster: &dyn Cluster,
    order: &Order,
    unproven: &[Unproven],
) -> Option<Remains> {
    let stays = unproven.iter().any(|left| left.key.kind == Kind::Namespace);
    if !stays || !matches!(order.body, Body::Project) {
        return None;
    }
    Some(match cluster.contents(&order.namespace).await {
        Ok(contents) => remains(order, contents),
        Err(error) => {
            let unread = Unread { what: "all kinds".to_owned(), why: error.to_string() };
            Remains { unread: vec![unread], ..Remains::default() }
        }
    })
}

/// Unproven entries for keys of these kinds whose dependent objects could not be read.
fn unread_behind(order: &Order, kinds: &[Kind], what: &str, error: &CallError) -> Vec<Unproven> {
    let keys = order.recorded.iter().filter(|(key, _)| kinds.contains(&key.kind));
    keys.map(|(key, uid)| Unproven {
        key: key.clone(),
        uid: uid.clone(),
        why: format!("{what} could not be read: {error}"),
    })
    .collect()
}
