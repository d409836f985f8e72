//! A cluster with a defect that only some objects meet: whatever is applied under such a name ends in
//! a panic, before anything is done, again and again until it is mended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream::BoxStream;
use serde_json::Value;
use trueup_cluster::verbs::Answer;
use trueup_cluster::{CallError, Cluster, Heard, List, Scope};
use trueup_model::key::{Kind, ResourceKey};
use trueup_testkit::fake_cluster::FakeCluster;

#[derive(Debug)]
pub(crate) struct Poisoned {
    pub(crate) inside: FakeCluster,
    pub(crate) prefix: &'static str,
    pub(crate) mended: Arc<AtomicBool>,
}

impl Cluster for Poisoned {
    fn get<'a>(&'a self, key: &'a ResourceKey) -> Answer<'a, Option<Value>> {
        self.inside.get(key)
    }

    fn list(&self, kind: Kind, scope: Scope) -> Answer<'_, List> {
        self.inside.list(kind, scope)
    }

    fn watch(&self, kind: Kind, from: String) -> BoxStream<'static, Result<Heard, CallError>> {
        self.inside.watch(kind, from)
    }

    fn apply<'a>(&'a self, key: &'a ResourceKey, object: &'a Value) -> Answer<'a, Value> {
        let broken = key.name.starts_with(self.prefix) && !self.mended.load(Ordering::SeqCst);
        assert!(!broken, "a defect that only this object meets");
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
}
