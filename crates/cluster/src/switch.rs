//! A cluster client that is unreachable until a real client is connected.
//!
//! While the local Kubernetes is being built, everything above already runs and sees an unreachable
//! cluster.

use std::sync::{Arc, PoisonError, RwLock};

use futures::stream::BoxStream;
use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::survey::Contents;

use crate::verbs::{Answer, CallError, Cluster, Draft, List, Scope, WatchEvent};

/// Forwards calls to the connected cluster client.
#[derive(Debug)]
pub struct Switch {
    connected: RwLock<Option<Arc<dyn Cluster>>>,
}

impl Default for Switch {
    fn default() -> Self {
        Self { connected: RwLock::new(None) }
    }
}

impl Switch {
    /// Connects a cluster client; later calls go to it.
    pub fn connect(&self, cluster: Arc<dyn Cluster>) {
        *self.connected.write().unwrap_or_else(PoisonError::into_inner) = Some(cluster);
    }

    fn now(&self) -> Result<Arc<dyn Cluster>, CallError> {
        self.connected
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
            .ok_or_else(|| CallError::Unreachable("the cluster is not connected yet".to_owned()))
    }
}

impl Cluster for Switch {
    fn get<'a>(&'a self, key: &'a ResourceKey) -> Answer<'a, Option<Value>> {
        Box::pin(async move { self.now()?.get(key).await })
    }

    fn list(&self, kind: Kind, scope: Scope) -> Answer<'_, List> {
        Box::pin(async move { self.now()?.list(kind, scope).await })
    }

    fn versions(&self, kind: Kind) -> Answer<'_, List> {
        Box::pin(async move { self.now()?.versions(kind).await })
    }

    fn versions_in<'a>(&'a self, kind: Kind, namespace: &'a str) -> Answer<'a, List> {
        Box::pin(async move { self.now()?.versions_in(kind, namespace).await })
    }

    fn watch(&self, kind: Kind, from: String) -> BoxStream<'static, Result<WatchEvent, CallError>> {
        match self.now() {
            Ok(cluster) => cluster.watch(kind, from),
            Err(error) => Box::pin(futures::stream::iter([Err(error)])),
        }
    }

    fn apply<'a>(&'a self, key: &'a ResourceKey, object: &'a Value) -> Answer<'a, Value> {
        Box::pin(async move { self.now()?.apply(key, object).await })
    }

    fn patch<'a>(&'a self, key: &'a ResourceKey, patch: &'a Value) -> Answer<'a, Value> {
        Box::pin(async move { self.now()?.patch(key, patch).await })
    }

    fn delete<'a>(
        &'a self,
        key: &'a ResourceKey,
        uid: &'a str,
        version: &'a str,
    ) -> Answer<'a, ()> {
        Box::pin(async move { self.now()?.delete(key, uid, version).await })
    }

    fn dry_run<'a>(&'a self, key: &'a ResourceKey, draft: Draft<'a>) -> Answer<'a, Value> {
        Box::pin(async move { self.now()?.dry_run(key, draft).await })
    }

    fn warnings<'a>(&'a self, key: &'a ResourceKey, uid: &'a str) -> Answer<'a, Vec<Value>> {
        Box::pin(async move { self.now()?.warnings(key, uid).await })
    }

    fn contents<'a>(&'a self, namespace: &'a str) -> Answer<'a, Contents> {
        Box::pin(async move { self.now()?.contents(namespace).await })
    }
}
