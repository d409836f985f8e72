//! A cluster client with a defect for some objects: until it is fixed, applying an object with the
//! prefix panics before the call, and a dry run of it gets no answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream::BoxStream;
use serde_json::Value;
use trueup_cluster::verbs::Answer;
use trueup_cluster::{CallError, Cluster, Draft, List, Scope, WatchEvent};
use trueup_model::key::{Kind, ResourceKey};
use trueup_testkit::fake_cluster::FakeCluster;

#[derive(Debug)]
pub(crate) struct Poisoned {
    pub(crate) inside: FakeCluster,
    pub(crate) prefix: &'static str,
    pub(crate) fixed: Arc<AtomicBool>,
}

impl Poisoned {
    fn is_broken(&self, key: &ResourceKey) -> bool {
        key.name.starts_with(self.prefix) && !self.fixed.load(Ordering::SeqCst)
    }
}

impl Cluster for Poisoned {
    fn get<'a>(&'a self, key: &'a ResourceKey) -> Answer<'a, Option<Value>> {
        self.inside.get(key)
    }

    fn list(&self, kind: Kind, scope: Scope) -> Answer<'_, List> {
        self.inside.list(kind, scope)
    }

    fn watch(&self, kind: Kind, from: String) -> BoxStream<'static, Result<WatchEvent, CallError>> {
        self.inside.watch(kind, from)
    }

    fn apply<'a>(&'a self, key: &'a ResourceKey, object: &'a Value) -> Answer<'a, Value> {
        assert!(!self.is_broken(key), "a defect for this object only");
        self.inside.apply(key, object)
    }

    fn patch<'a>(&'a self, key: &'a ResourceKey, patch: &'a Value) -> Answer<'a, Value> {
        self.inside.patch(key, patch)
    }

    fn delete<'a>(
        &'a self,
        key: &'a ResourceKey,
        uid: &'a str,
        version: &'a str,
    ) -> Answer<'a, ()> {
        self.inside.delete(key, uid, version)
    }

    fn dry_run<'a>(&'a self, key: &'a ResourceKey, draft: Draft<'a>) -> Answer<'a, Value> {
        if self.is_broken(key) {
            return Box::pin(async { Err(CallError::Unanswered("lost".to_owned())) });
        }
        self.inside.dry_run(key, draft)
    }
}
