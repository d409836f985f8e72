//! How often each object was created and deleted, by the API server's own account.
//!
//! Trueup's events would tell what Trueup believes. A watch from before the work on tells what really
//! happened: every uid that appears is one create, every one that goes is one delete.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use serde_json::Value;
use tokio::task::JoinSet;
use trueup_cluster::kube::Kube;
use trueup_cluster::{Cluster, Scope, WatchEvent};
use trueup_model::key::Kind;

use crate::wait::{SOON, eventually};

/// Which incarnation of which object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Incarnation {
    kind: Kind,
    namespace: String,
    name: String,
    uid: String,
}

#[derive(Debug, Default)]
struct Seen {
    created: BTreeSet<Incarnation>,
    deleted: BTreeSet<Incarnation>,
}

/// Counts from its start on.
#[derive(Debug)]
pub(crate) struct Tally {
    kube: Kube,
    seen: Arc<Mutex<Seen>>,
    _watches: JoinSet<()>,
}

/// Creates and deletes by kind and by name without what is random in it.
pub(crate) type Counts = BTreeMap<String, (usize, usize)>;

impl Tally {
    /// Begins to count; everything that happens after this returns is counted.
    pub(crate) async fn start(kube: Kube) -> Self {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let mut watches = JoinSet::new();
        for kind in kinds() {
            let from = kube.list(kind, Scope::Ours).await.unwrap().version;
            watches.spawn(follow(kube.clone(), kind, from, Arc::clone(&seen)));
        }
        Self { kube, seen, _watches: watches }
    }

    /// The counts in one namespace, once everything that is there by now has been heard of.
    pub(crate) async fn counts(&self, namespace: &str, tidy: impl Fn(&str) -> String) -> Counts {
        eventually("the watches to hear of everything", SOON, || async {
            let there = self.there(namespace).await;
            let seen = self.seen.lock().unwrap();
            let heard: BTreeSet<Incarnation> = seen
                .created
                .difference(&seen.deleted)
                .filter(|one| one.namespace == namespace)
                .cloned()
                .collect();
            (heard == there).then_some(())
        })
        .await;
        let seen = self.seen.lock().unwrap();
        let mut counts = Counts::new();
        let key = |one: &Incarnation| format!("{} {}", one.kind, tidy(&one.name));
        for one in seen.created.iter().filter(|one| one.namespace == namespace) {
            counts.entry(key(one)).or_default().0 += 1;
        }
        for one in seen.deleted.iter().filter(|one| one.namespace == namespace) {
            counts.entry(key(one)).or_default().1 += 1;
        }
        counts
    }

    async fn there(&self, namespace: &str) -> BTreeSet<Incarnation> {
        let mut there = BTreeSet::new();
        for kind in kinds() {
            let list = self.kube.list(kind, Scope::Ours).await.unwrap();
            there.extend(list.objects.iter().map(|object| incarnation(kind, object)));
        }
        there.retain(|one| one.namespace == namespace);
        there
    }
}

/// The kinds that every cluster has. The others have to be defined, which the local cluster does not do.
pub(crate) fn kinds() -> impl Iterator<Item = Kind> {
    let defined = [Kind::HttpRoute, Kind::Certificate, Kind::ServiceMonitor];
    Kind::WATCHED.into_iter().chain(Kind::READ).filter(move |kind| !defined.contains(kind))
}

/// Hears everything of one kind; a watch ends every twenty seconds and is taken up where it ended.
async fn follow(kube: Kube, kind: Kind, mut from: String, seen: Arc<Mutex<Seen>>) {
    loop {
        let mut watch = kube.watch(kind, from.clone());
        while let Some(heard) = watch.next().await {
            match heard.unwrap() {
                WatchEvent::Present(object) => {
                    from = version(&object);
                    seen.lock().unwrap().created.insert(incarnation(kind, &object));
                }
                WatchEvent::Gone(object) => {
                    from = version(&object);
                    seen.lock().unwrap().deleted.insert(incarnation(kind, &object));
                }
                WatchEvent::Bookmark(at) => from = at,
            }
        }
    }
}

/// A namespace counts as part of itself.
fn incarnation(kind: Kind, object: &Value) -> Incarnation {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let namespace = if kind == Kind::Namespace { text("name") } else { text("namespace") };
    Incarnation { kind, namespace, name: text("name"), uid: text("uid") }
}

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}
