//! A namespace for one check, and helpers that checks share.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use trueup_cluster::{CallError, Cluster};
use trueup_model::key::{Kind, ResourceKey};

/// Longer than any controller needs on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(300);
const POLL_EVERY: Duration = Duration::from_millis(50);

/// A namespace in a cluster.
#[derive(Debug)]
pub struct Place {
    /// The cluster under test.
    pub cluster: Arc<dyn Cluster>,
    /// A namespace that only this check uses.
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

    /// Deletes the namespace, without waiting until it is gone.
    pub(super) async fn close(&self) {
        let key = self.own_namespace();
        let ended = async {
            loop {
                let Ok(Some(object)) = self.cluster.get(&key).await else {
                    return;
                };
                let (uid, version) = (text(&object, "uid"), text(&object, "resourceVersion"));
                match self.cluster.delete(&key, &uid, &version).await {
                    Err(CallError::Conflict(_)) => tokio::time::sleep(POLL_EVERY).await,
                    _ => return,
                }
            }
        };
        tokio::time::timeout(TIMEOUT, ended)
            .await
            .expect("the namespace should be deleted in time");
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

    /// The object, if it exists.
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
                    // A controller changed the object meanwhile; read it again.
                    Err(CallError::Conflict(_)) => tokio::time::sleep(POLL_EVERY).await,
                    outcome => return outcome,
                }
            }
        };
        let outcome = tokio::time::timeout(TIMEOUT, outcome)
            .await
            .expect("the delete should not conflict forever");
        outcome.expect("should delete");
    }

    /// Waits until the condition holds for the object.
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
                tokio::time::sleep(POLL_EVERY).await;
            }
        };
        match tokio::time::timeout(TIMEOUT, found).await {
            Ok(object) => object,
            Err(_) => {
                let last = self.get(key).await;
                unreachable!("{key} should be {what} within {TIMEOUT:?}; last read: {last:#?}")
            }
        }
    }

    /// Waits before the next poll.
    pub(super) async fn pause(&self) {
        tokio::time::sleep(POLL_EVERY).await;
    }

    /// Waits for a future, with a timeout.
    pub(super) async fn in_time<T>(&self, what: &str, future: impl Future<Output = T>) -> T {
        match tokio::time::timeout(TIMEOUT, future).await {
            Ok(it) => it,
            Err(_) => unreachable!("timed out after {TIMEOUT:?} waiting for {what}"),
        }
    }

    /// Waits until the object is gone.
    pub(super) async fn until_gone(&self, key: &ResourceKey) {
        let gone = async {
            while self.get(key).await.is_some() {
                tokio::time::sleep(POLL_EVERY).await;
            }
        };
        let outcome = tokio::time::timeout(TIMEOUT, gone).await;
        assert!(outcome.is_ok(), "{key} should be gone within {TIMEOUT:?}");
    }

    /// Waits for this number of our pods in this namespace, none of them terminating.
    pub(super) async fn until_pods(&self, count: usize) -> Vec<Value> {
        let counted = async {
            loop {
                let pods = self.listed(Kind::Pod).await;
                if pods.len() == count && pods.iter().all(|pod| !is_terminating(pod)) {
                    return pods;
                }
                tokio::time::sleep(POLL_EVERY).await;
            }
        };
        tokio::time::timeout(TIMEOUT, counted)
            .await
            .expect("the number of pods should be reached in time")
    }

    /// Our objects of a kind in this namespace.
    pub(super) async fn listed(&self, kind: Kind) -> Vec<Value> {
        let list = self.cluster.list(kind, trueup_cluster::Scope::Ours).await.expect("should list");
        list.objects
            .into_iter()
            .filter(|object| text(object, "namespace") == self.namespace)
            .collect()
    }

    /// A ConfigMap with our label and this data.
    pub(super) fn config(&self, name: &str, data: &Value) -> (ResourceKey, Value) {
        let key = self.key(Kind::ConfigMap, name);
        let mut object = labelled(&key);
        object["data"] = data.clone();
        (key, object)
    }
}

/// An object with only its type, its name and our label.
pub(super) fn labelled(key: &ResourceKey) -> Value {
    json!({
        "apiVersion": key.kind.api_version(),
        "kind": key.kind.as_str(),
        "metadata": { "name": key.name, "labels": { "app.kubernetes.io/managed-by": "trueup" } },
    })
}

/// An owner reference to `owner`.
pub(super) fn owned_by(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    })
}

/// A string field of the metadata.
pub(super) fn text(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}

pub(super) fn is_terminating(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}
