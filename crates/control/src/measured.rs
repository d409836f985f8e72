//! A wrapper that counts and times the calls to a cluster.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::Value;
use trueup_cluster::verbs::Answer;
use trueup_cluster::{CallError, Cluster, Draft, List, Scope, WatchEvent};
use trueup_model::Clock;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::survey::Contents;

use crate::metrics::{Call, Metrics, OfKind, Verb};

/// Counts and times each call to the cluster inside.
#[derive(Debug)]
pub struct Measured {
    inside: Arc<dyn Cluster>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
}

impl Measured {
    /// Wraps a cluster.
    #[must_use]
    pub fn new(inside: Arc<dyn Cluster>, clock: Arc<dyn Clock>, metrics: Metrics) -> Self {
        Self { inside, clock, metrics }
    }

    fn timed<'a, T: Send + 'a>(&'a self, verb: &'static str, call: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(async move {
            let began = self.clock.monotonic();
            let answer = call.await;
            let took = self.clock.monotonic().saturating_sub(began);
            self.count(verb, answer.as_ref().err());
            self.metrics.call_seconds.get_or_create(&Verb { verb }).observe(took.as_secs_f64());
            answer
        })
    }

    fn count(&self, verb: &'static str, error: Option<&CallError>) {
        let outcome = error.map_or("ok", CallError::label);
        self.metrics.calls.get_or_create(&Call { verb, outcome }).inc();
    }
}

impl Cluster for Measured {
    fn get<'a>(&'a self, key: &'a ResourceKey) -> Answer<'a, Option<Value>> {
        self.timed("get", self.inside.get(key))
    }

    fn list(&self, kind: Kind, scope: Scope) -> Answer<'_, List> {
        self.timed("list", self.inside.list(kind, scope))
    }

    fn versions(&self, kind: Kind) -> Answer<'_, List> {
        self.timed("versions", self.inside.versions(kind))
    }

    fn versions_in<'a>(&'a self, kind: Kind, namespace: &'a str) -> Answer<'a, List> {
        self.timed("versions", self.inside.versions_in(kind, namespace))
    }

    fn watch(&self, kind: Kind, from: String) -> BoxStream<'static, Result<WatchEvent, CallError>> {
        self.count("watch", None);
        self.metrics.watch_starts.get_or_create(&OfKind { kind: kind.as_str() }).inc();
        let (clock, times) = (Arc::clone(&self.clock), self.metrics.repair_times.clone());
        let note = move |event: &Result<WatchEvent, CallError>| {
            if let Ok(WatchEvent::Present(object) | WatchEvent::Gone(object)) = event {
                let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
                let key = ResourceKey::new(kind, text("namespace"), text("name"));
                times.saw(key, clock.monotonic());
            }
        };
        let events = self.inside.watch(kind, from);
        // Pods are never repaired, and nodes and the like are not watched for repairs.
        let is_repaired = Kind::WATCHED.contains(&kind) && kind != Kind::Pod;
        if is_repaired { events.inspect(note).boxed() } else { events }
    }

    fn apply<'a>(&'a self, key: &'a ResourceKey, object: &'a Value) -> Answer<'a, Value> {
        self.metrics.repair_times.writes(key);
        self.timed("apply", self.inside.apply(key, object))
    }

    fn patch<'a>(&'a self, key: &'a ResourceKey, patch: &'a Value) -> Answer<'a, Value> {
        self.metrics.repair_times.writes(key);
        self.timed("patch", self.inside.patch(key, patch))
    }

    fn delete<'a>(
        &'a self,
        key: &'a ResourceKey,
        uid: &'a str,
        version: &'a str,
    ) -> Answer<'a, ()> {
        self.timed("delete", self.inside.delete(key, uid, version))
    }

    fn dry_run<'a>(&'a self, key: &'a ResourceKey, draft: Draft<'a>) -> Answer<'a, Value> {
        self.timed("dry_run", self.inside.dry_run(key, draft))
    }

    fn warnings<'a>(&'a self, key: &'a ResourceKey, uid: &'a str) -> Answer<'a, Vec<Value>> {
        self.timed("warnings", self.inside.warnings(key, uid))
    }

    fn contents<'a>(&'a self, namespace: &'a str) -> Answer<'a, Contents> {
        self.timed("contents", self.inside.contents(namespace))
    }
}
