//! A cluster client that holds one write of a workload, so that an outside change falls into a
//! pass.

use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::BoxStream;
use serde_json::Value;
use tokio::sync::Semaphore;
use trueup_cluster::verbs::Answer;
use trueup_cluster::{CallError, Cluster, Draft, List, Scope, WatchEvent};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::survey::Contents;

/// When a write is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Planned, and not sent yet.
    Before,
    /// Stored, and its response is not seen yet.
    After,
}

/// The client.
#[derive(Debug)]
pub(crate) struct Held {
    inner: Arc<dyn Cluster>,
    /// When the next apply of a Deployment is held.
    next: Mutex<Option<Moment>>,
    arrived: Semaphore,
    released: Semaphore,
}

impl Held {
    pub(crate) fn new(inner: Arc<dyn Cluster>) -> Arc<Self> {
        let (arrived, released) = (Semaphore::new(0), Semaphore::new(0));
        Arc::new(Self { inner, next: Mutex::default(), arrived, released })
    }

    /// Holds the next apply of a Deployment at this moment.
    pub(crate) fn hold(&self, moment: Moment) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(moment);
    }

    /// Waits until a write is held.
    pub(crate) async fn is_held(&self) {
        self.arrived.acquire().await.expect("it should stay open").forget();
    }

    /// Lets the held write go on.
    pub(crate) fn release(&self) {
        self.released.add_permits(1);
    }

    async fn wait(&self) {
        self.arrived.add_permits(1);
        self.released.acquire().await.expect("it should stay open").forget();
    }
}

impl Cluster for Held {
    fn get<'a>(&'a self, key: &'a ResourceKey) -> Answer<'a, Option<Value>> {
        self.inner.get(key)
    }

    fn list(&self, kind: Kind, scope: Scope) -> Answer<'_, List> {
        self.inner.list(kind, scope)
    }

    fn versions(&self, kind: Kind) -> Answer<'_, List> {
        self.inner.versions(kind)
    }

    fn versions_in<'a>(&'a self, kind: Kind, namespace: &'a str) -> Answer<'a, List> {
        self.inner.versions_in(kind, namespace)
    }

    fn watch(&self, kind: Kind, from: String) -> BoxStream<'static, Result<WatchEvent, CallError>> {
        self.inner.watch(kind, from)
    }

    fn apply<'a>(&'a self, key: &'a ResourceKey, object: &'a Value) -> Answer<'a, Value> {
        Box::pin(async move {
            let moment = if key.kind == Kind::Deployment {
                self.next.lock().unwrap_or_else(PoisonError::into_inner).take()
            } else {
                None
            };
            if moment == Some(Moment::Before) {
                self.wait().await;
            }
            let answer = self.inner.apply(key, object).await;
            if moment == Some(Moment::After) {
                self.wait().await;
            }
            answer
        })
    }

    fn patch<'a>(&'a self, key: &'a ResourceKey, patch: &'a Value) -> Answer<'a, Value> {
        self.inner.patch(key, patch)
    }

    fn delete<'a>(
        &'a self,
        key: &'a ResourceKey,
        uid: &'a str,
        version: &'a str,
    ) -> Answer<'a, ()> {
        self.inner.delete(key, uid, version)
    }

    fn dry_run<'a>(&'a self, key: &'a ResourceKey, draft: Draft<'a>) -> Answer<'a, Value> {
        self.inner.dry_run(key, draft)
    }

    fn warnings<'a>(&'a self, key: &'a ResourceKey, uid: &'a str) -> Answer<'a, Vec<Value>> {
        self.inner.warnings(key, uid)
    }

    fn contents<'a>(&'a self, namespace: &'a str) -> Answer<'a, Contents> {
        self.inner.contents(namespace)
    }
}
