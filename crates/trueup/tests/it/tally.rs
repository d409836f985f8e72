//! Counts how often each object was created and deleted, from the API server's watches.
//!
//! Trueup's events only report what Trueup believes. The watches start before the test's work:
//! every new uid is one create, every removed uid one delete.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use serde_json::Value;
use tokio::task::JoinSet;
use trueup_cluster::kube::Kube;
use trueup_cluster::{Cluster, Scope, WatchEvent};
use trueup_model::key::Kind;

use crate::wait::{SOON, eventually};

/// An object with its uid.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ObjectUid {
    kind: Kind,
    namespace: String,
    name: String,
    uid: String,
}

#[derive(Debug, Default)]
struct Seen {
    created: BTreeSet<ObjectUid>,
    deleted: BTreeSet<ObjectUid>,
}

/// Counts creates and deletes since its start.
#[derive(Debug)]
pub(crate) struct Tally {
    kube: Kube,
    seen: Arc<Mutex<Seen>>,
    _watches: JoinSet<()>,
}

/// Creates and deletes by kind and normalised name.
pub(crate) type Counts = BTreeMap<String, (usize, usize)>;

impl Tally {
    /// Starts counting; everything after this returns is counted.
    pub(crate) async fn start(kube: Kube) -> Self {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let mut watches = JoinSet::new();
        for kind in kinds() {
            let from = kube.list(kind, Scope::Ours).await.unwrap().version;
            watches.spawn(follow(kube.clone(), kind, from, Arc::clone(&seen)));
        }
        Self { kube, seen, _watches: watches }
    }

    /// The counts in one namespace, once the watches have caught up with the current objects.
    pub(crate) async fn counts(
        &self,
        namespace: &str,
        normalise: impl Fn(&str) -> String,
    ) -> Counts {
        eventually("the watches to catch up", SOON, || async {
            let present = self.present(namespace).await;
            let seen = self.seen.lock().unwrap();
            let watched: BTreeSet<ObjectUid> = seen
                .created
                .difference(&seen.deleted)
                .filter(|one| one.namespace == namespace)
                .cloned()
                .collect();
            (watched == present).then_some(())
        })
        .await;
        let seen = self.seen.lock().unwrap();
        let mut counts = Counts::new();
        let key = |one: &ObjectUid| format!("{} {}", one.kind, normalise(&one.name));
        for one in seen.created.iter().filter(|one| one.namespace == namespace) {
            counts.entry(key(one)).or_default().0 += 1;
        }
        for one in seen.deleted.iter().filter(|one| one.namespace == namespace) {
            counts.entry(key(one)).or_default().1 += 1;
        }
        counts
    }

    async fn present(&self, namespace: &str) -> BTreeSet<ObjectUid> {
        let mut present = BTreeSet::new();
        for kind in kinds() {
            let list = self.kube.list(kind, Scope::Ours).await.unwrap();
            present.extend(list.objects.iter().map(|object| object_uid(kind, object)));
        }
        present.retain(|one| one.namespace == namespace);
        present
    }
}

/// The built-in kinds. The others need CRDs, which the local cluster does not have.
pub(crate) fn kinds() -> impl Iterator<Item = Kind> {
    let defined = [Kind::HttpRoute, Kind::Certificate, Kind::ServiceMonitor];
    Kind::WATCHED.into_iter().chain(Kind::READ).filter(move |kind| !defined.contains(kind))
}

/// Watches one kind; a watch ends every twenty seconds and is resumed at its last version.
async fn follow(kube: Kube, kind: Kind, mut from: String, seen: Arc<Mutex<Seen>>) {
    loop {
        let mut watch = kube.watch(kind, from.clone());
        while let Some(event) = watch.next().await {
            match event.unwrap() {
                WatchEvent::Present(object) => {
                    from = version(&object);
                    seen.lock().unwrap().created.insert(object_uid(kind, &object));
                }
                WatchEvent::Gone(object) => {
                    from = version(&object);
                    seen.lock().unwrap().deleted.insert(object_uid(kind, &object));
                }
                WatchEvent::Bookmark(at) => from = at,
            }
        }
    }
}

/// A namespace counts as part of itself.
fn object_uid(kind: Kind, object: &Value) -> ObjectUid {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let namespace = if kind == Kind::Namespace { text("name") } else { text("namespace") };
    ObjectUid { kind, namespace, name: text("name"), uid: text("uid") }
}

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}
