//! Where a check runs: a namespace of its own, and the words checks have in common.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use trueup_cluster::{CallError, Cluster};
use trueup_model::key::{Kind, ResourceKey};

/// Longer than any controller needs on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(50);

/// A namespace in a cluster.
#[derive(Debug)]
pub struct Place {
    /// The cluster under check.
    pub cluster: Arc<dyn Cluster>,
    /// A namespace that nobody else uses.
    pub namespace: String,
}

impl Place {
    pub(super) const fn new(cluster: Arc<dyn Cluster>, namespace: String) -> Self {
        Self { cluster, namespace }
    }

    pub(super) async fn open(&self) {
        let key = self.own_namespace();
        self.apply(&key, &labelled(&key)).await;
    }

    /// Asks for the end of the namespace; what happens to it then is not this check's matter.
    pub(super) async fn close(&self) {
        let key = self.own_namespace();
        let ended = async {
            loop {
                let Ok(Some(object)) = self.cluster.get(&key).await else {
                    return;
                };
                let (uid, version) = (text(&object, "uid"), text(&object, "resourceVersion"));
                match self.cluster.delete(&key, &uid, &version).await {
                    Err(CallError::Conflict(_)) => tokio::time::sleep(PAUSE).await,
                    _ => return,
                }
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.expect("should be able to end a namespace");
    }

    pub(super) fn own_namespace(&self) -> ResourceKey {
        ResourceKey::new(Kind::Namespace, "", &self.namespace)
    }

    pub(super) fn key(&self, kind: Kind, name: &str) -> ResourceKey {
        ResourceKey::new(kind, &self.namespace, name)
    }

    pub(super) async fn apply(&self, key: &ResourceKey, object: &Value) -> Value {
        self.cluster.apply(key, object).await.expect("should apply")
    }

    pub(super) async fn patch(&self, key: &ResourceKey, patch: &Value) -> Value {
        self.cluster.patch(key, patch).await.expect("should patch")
    }

    /// The object now, if it is there.
    pub(super) async fn get(&self, key: &ResourceKey) -> Option<Value> {
        self.cluster.get(key).await.expect("should read")
    }

    pub(super) async fn delete(&self, key: &ResourceKey) {
        let outcome = async {
            loop {
                let Some(object) = self.get(key).await else {
                    return Ok(());
                };
                let (uid, version) = (text(&object, "uid"), text(&object, "resourceVersion"));
                match self.cluster.delete(key, &uid, &version).await {
                    // A controller was faster; look again.
                    Err(CallError::Conflict(_)) => tokio::time::sleep(PAUSE).await,
                    outcome => return outcome,
                }
            }
        };
        let outcome =
            tokio::time::timeout(PATIENCE, outcome).await.expect("should find a quiet moment");
        outcome.expect("should delete");
    }

    /// Waits until the object is as described.
    pub(super) async fn until(
        &self,
        key: &ResourceKey,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let found = async {
            loop {
                if let Some(object) = self.get(key).await.filter(|object| holds(object)) {
                    return object;
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        match tokio::time::timeout(PATIENCE, found).await {
            Ok(object) => object,
            Err(_) => {
                let last = self.get(key).await;
                unreachable!("{key} should be {what} within {PATIENCE:?}; it is {last:#?}")
            }
        }
    }

    /// A moment between two looks.
    pub(super) async fn pause(&self) {
        tokio::time::sleep(PAUSE).await;
    }

    /// Waits for something that should come.
    pub(super) async fn in_time<T>(&self, what: &str, comes: impl Future<Output = T>) -> T {
        match tokio::time::timeout(PATIENCE, comes).await {
            Ok(it) => it,
            Err(_) => unreachable!("{what} should come within {PATIENCE:?}"),
        }
    }

    /// Waits until there is no such object.
    pub(super) async fn until_gone(&self, key: &ResourceKey) {
        let gone = async {
            while self.get(key).await.is_some() {
                tokio::time::sleep(PAUSE).await;
            }
        };
        let outcome = tokio::time::timeout(PATIENCE, gone).await;
        assert!(outcome.is_ok(), "{key} should go within {PATIENCE:?}");
    }

    /// Our pods in this namespace once there are so many of them, none of them going.
    pub(super) async fn until_pods(&self, count: usize) -> Vec<Value> {
        let counted = async {
            loop {
                let pods = self.listed(Kind::Pod).await;
                if pods.len() == count && pods.iter().all(|pod| !is_dying(pod)) {
                    return pods;
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(PATIENCE, counted).await.expect("should come to the number of pods")
    }

    /// Our objects of a kind in this namespace.
    pub(super) async fn listed(&self, kind: Kind) -> Vec<Value> {
        let list = self.cluster.list(kind, trueup_cluster::Scope::Ours).await.expect("should list");
        list.objects
            .into_iter()
            .filter(|object| text(object, "namespace") == self.namespace)
            .collect()
    }

    /// A labelled ConfigMap with this content.
    pub(super) fn config(&self, name: &str, data: &Value) -> (ResourceKey, Value) {
        let key = self.key(Kind::ConfigMap, name);
        let mut object = labelled(&key);
        object["data"] = data.clone();
        (key, object)
    }
}

/// An object that has its type, its name and our label.
pub(super) fn labelled(key: &ResourceKey) -> Value {
    json!({
        "apiVersion": key.kind.api_version(),
        "kind": key.kind.as_str(),
        "metadata": { "name": key.name, "labels": { "app.kubernetes.io/managed-by": "trueup" } },
    })
}

/// A reference that makes `owner` an owner.
pub(super) fn owned_by(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    })
}

/// A text in the metadata.
pub(super) fn text(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}

pub(super) fn is_dying(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}
