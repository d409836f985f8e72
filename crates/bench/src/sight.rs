//! What the API server says happened, whoever did it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use trueup_cluster::kube::Kube;
use trueup_cluster::{Cluster as _, Scope, WatchEvent};
use trueup_model::key::{Kind, ResourceKey};

use crate::wait::until;

/// The kinds of what a service of a bench is made of.
pub(crate) const KINDS: [Kind; 3] = [Kind::ConfigMap, Kind::Service, Kind::Deployment];
/// Longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(600);

/// How far Deployments have come: seen at all, and seen by their controller.
#[derive(Debug, Default)]
struct Seen {
    applied: BTreeMap<String, Instant>,
    observed: BTreeMap<String, Instant>,
}

/// Follows Deployments from its start on.
pub(crate) struct Sight {
    seen: Arc<Mutex<Seen>>,
    _watch: JoinSet<()>,
}

impl Sight {
    /// Begins to look.
    pub(crate) async fn start(kube: &Kube) -> anyhow::Result<Self> {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let from = kube.list(Kind::Deployment, Scope::Ours).await?.version;
        let mut watch = JoinSet::new();
        let (kube, into) = (kube.clone(), Arc::clone(&seen));
        watch.spawn(async move {
            follow(&kube, Kind::Deployment, from, |heard| {
                if let WatchEvent::Present(object) = heard {
                    note(&into, &object);
                }
            })
            .await;
        });
        Ok(Self { seen, _watch: watch })
    }

    /// Waits for as many Deployments; answers when the last of them was there, and when the last was
    /// observed by its controller.
    pub(crate) async fn wait(&self, count: usize) -> anyhow::Result<(Instant, Instant)> {
        until("the Deployments to be observed", LIMIT, || async {
            Ok(self.seen().observed.len() >= count)
        })
        .await?;
        let seen = self.seen();
        let last = |times: &BTreeMap<String, Instant>| times.values().max().copied();
        let applied = last(&seen.applied).unwrap_or_else(Instant::now);
        Ok((applied, last(&seen.observed).unwrap_or(applied)))
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn note(seen: &Mutex<Seen>, object: &Value) {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(uid) = object["metadata"]["uid"].as_str() else { return };
    let now = Instant::now();
    seen.applied.entry(uid.to_owned()).or_insert(now);
    let current = &object["metadata"]["generation"];
    if object["status"]["observedGeneration"] == *current {
        seen.observed.entry(uid.to_owned()).or_insert(now);
    }
}

/// Something that the API server told.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) key: ResourceKey,
    pub(crate) uid: String,
    pub(crate) at: Instant,
}

/// Every object that appears from now on, of the kinds of a service.
pub(crate) async fn appearances(
    kube: &Kube,
    watches: &mut JoinSet<()>,
) -> anyhow::Result<mpsc::UnboundedReceiver<Told>> {
    let (tell, told) = mpsc::unbounded_channel();
    for kind in KINDS {
        let from = kube.list(kind, Scope::Ours).await?.version;
        let (kube, tell) = (kube.clone(), tell.clone());
        watches.spawn(async move {
            follow(&kube, kind, from, |heard| {
                if let WatchEvent::Present(object) = heard {
                    let at = Instant::now();
                    let uid = text(&object["metadata"]["uid"]);
                    // Nobody listens any more only when the bench is over.
                    let _over = tell.send(Told { key: key_of(kind, &object), uid, at });
                }
            })
            .await;
        });
    }
    Ok(told)
}

/// Watches a kind for ever.
pub(crate) async fn follow(
    kube: &Kube,
    kind: Kind,
    mut from: String,
    mut hear: impl FnMut(WatchEvent),
) {
    loop {
        let mut events = kube.watch(kind, from.clone());
        while let Some(Ok(heard)) = events.next().await {
            match &heard {
                WatchEvent::Present(object) | WatchEvent::Gone(object) => {
                    from = text(&object["metadata"]["resourceVersion"]);
                }
                WatchEvent::Bookmark(at) => from.clone_from(at),
            }
            hear(heard);
        }
    }
}

/// Every object of ours with its version: what did not change has the same one.
pub(crate) async fn versions(kube: &Kube) -> anyhow::Result<BTreeSet<(ResourceKey, String)>> {
    let mut all = BTreeSet::new();
    for kind in KINDS {
        let list = kube.versions(kind).await?;
        all.extend(
            list.objects
                .iter()
                .map(|object| (key_of(kind, object), text(&object["metadata"]["resourceVersion"]))),
        );
    }
    Ok(all)
}

/// Where an object stands.
pub(crate) fn key_of(kind: Kind, object: &Value) -> ResourceKey {
    let metadata = &object["metadata"];
    ResourceKey::new(kind, &text(&metadata["namespace"]), &text(&metadata["name"]))
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
