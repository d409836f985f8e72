//! Watches the API server for objects that appear, by any writer.

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

/// The kinds of a bench service's objects.
pub(crate) const KINDS: [Kind; 3] = [Kind::ConfigMap, Kind::Service, Kind::Deployment];
/// Longer than any wait here takes.
const LIMIT: Duration = Duration::from_secs(600);

/// When Deployments were first seen, and when their controller first observed them.
#[derive(Debug, Default)]
struct Seen {
    applied: BTreeMap<String, Instant>,
    observed: BTreeMap<String, Instant>,
}

/// Watches Deployments from its start on.
pub(crate) struct DeploymentWatch {
    seen: Arc<Mutex<Seen>>,
    _watch: JoinSet<()>,
}

impl DeploymentWatch {
    /// Starts the watch.
    pub(crate) async fn start(kube: &Kube) -> anyhow::Result<Self> {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let from = kube.list(Kind::Deployment, Scope::Ours).await?.version;
        let mut watch = JoinSet::new();
        let (kube, into) = (kube.clone(), Arc::clone(&seen));
        watch.spawn(async move {
            follow(&kube, Kind::Deployment, from, |event| {
                if let WatchEvent::Present(object) = event {
                    note(&into, &object);
                }
            })
            .await;
        });
        Ok(Self { seen, _watch: watch })
    }

    /// Waits for this many Deployments; returns when the last of them appeared, and when the last
    /// was observed by its controller.
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

/// An object that a watch reported.
#[derive(Debug)]
pub(crate) struct Appearance {
    pub(crate) key: ResourceKey,
    pub(crate) uid: String,
    pub(crate) at: Instant,
}

/// Receives every object of a service's kinds that appears from now on.
pub(crate) async fn appearances(
    kube: &Kube,
    watches: &mut JoinSet<()>,
) -> anyhow::Result<mpsc::UnboundedReceiver<Appearance>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    for kind in KINDS {
        let from = kube.list(kind, Scope::Ours).await?.version;
        let (kube, sender) = (kube.clone(), sender.clone());
        watches.spawn(async move {
            follow(&kube, kind, from, |event| {
                if let WatchEvent::Present(object) = event {
                    let at = Instant::now();
                    let uid = text(&object["metadata"]["uid"]);
                    // The channel closes only when the bench ends.
                    let _closed = sender.send(Appearance { key: key_of(kind, &object), uid, at });
                }
            })
            .await;
        });
    }
    Ok(receiver)
}

/// Watches a kind for ever.
pub(crate) async fn follow(
    kube: &Kube,
    kind: Kind,
    mut from: String,
    mut handle: impl FnMut(WatchEvent),
) {
    loop {
        let mut events = kube.watch(kind, from.clone());
        while let Some(Ok(event)) = events.next().await {
            match &event {
                WatchEvent::Present(object) | WatchEvent::Gone(object) => {
                    from = text(&object["metadata"]["resourceVersion"]);
                }
                WatchEvent::Bookmark(at) => from.clone_from(at),
            }
            handle(event);
        }
    }
}

/// All our objects with their versions, to detect changes.
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

/// The key of an object.
pub(crate) fn key_of(kind: Kind, object: &Value) -> ResourceKey {
    let metadata = &object["metadata"];
    ResourceKey::new(kind, &text(&metadata["namespace"]), &text(&metadata["name"]))
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
