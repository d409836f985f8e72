//! The [`Cluster`] calls: injected faults, effect, journal, controllers, then the test's hook.

use std::sync::Arc;

use futures::FutureExt;
use futures::stream::BoxStream;
use serde_json::Value;
use trueup_cluster::verbs::Answer;
use trueup_cluster::{CallError, Cluster, Draft, List, Scope, WatchEvent};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::survey::Contents;

use super::state::State;
use super::verbs::Written;
use super::{FakeCluster, Inner, Shared, Then, Verb, Write, contents, watch};

impl Shared {
    /// A read call.
    fn read<T>(
        &self,
        verb: Verb,
        kind: Kind,
        act: impl FnOnce(&mut State) -> Result<T, CallError> + Send,
    ) -> Result<T, CallError> {
        let mut inner = self.lock();
        let fault = inner.admit(verb, kind)?;
        let outcome = act(&mut inner.state);
        fault.map_or(outcome, Err)
    }

    /// A write call.
    async fn write<T>(
        &self,
        verb: Verb,
        key: &ResourceKey,
        act: impl FnOnce(&mut State) -> Written<T> + Send,
    ) -> Result<T, CallError> {
        let (outcome, then) = self.carry_out(verb, key, act);
        match then {
            Then::Answer => outcome,
            Then::Lose(error) => Err(error),
            Then::Hang => futures::future::pending().await,
        }
    }

    fn carry_out<T>(
        &self,
        verb: Verb,
        key: &ResourceKey,
        act: impl FnOnce(&mut State) -> Written<T>,
    ) -> (Result<T, CallError>, Then) {
        let mut inner = self.lock();
        let fault = match inner.admit(verb, key.kind) {
            Ok(fault) => fault,
            Err(error) => {
                inner.note_ineffective(verb, key);
                return (Err(error), Then::Answer);
            }
        };
        let (outcome, write) = match act(&mut inner.state) {
            Ok((value, write)) => (Ok(value), write),
            Err(error) => (Err(error), None),
        };
        let mut then = Then::Answer;
        if let Some(write) = write {
            inner.journal.push(write.clone());
            inner.effects += 1;
            inner.run_controllers();
            let (number, decide) = (inner.effects, inner.on_write.clone());
            drop(inner);
            self.notify_watches();
            if let Some(decide) = decide {
                then = decide(number, &write);
            }
        } else {
            inner.note_ineffective(verb, key);
        }
        (outcome, fault.map_or(then, Then::Lose))
    }
}

impl Inner {
    /// Records a write that changed nothing, unless it never reached the server.
    fn note_ineffective(&mut self, verb: Verb, key: &ResourceKey) {
        if self.reachable {
            let (key, uid) = (key.clone(), String::new());
            self.journal.push(Write { verb, key, uid, created: false, effective: false });
        }
    }
}

impl Cluster for FakeCluster {
    fn get<'a>(&'a self, key: &'a ResourceKey) -> Answer<'a, Option<Value>> {
        async move { self.shared.read(Verb::Get, key.kind, |state| Ok(state.get(key).cloned())) }
            .boxed()
    }

    fn list(&self, kind: Kind, scope: Scope) -> Answer<'_, List> {
        async move { self.shared.read(Verb::List, kind, move |state| Ok(state.list(kind, scope))) }
            .boxed()
    }

    fn watch(&self, kind: Kind, from: String) -> BoxStream<'static, Result<WatchEvent, CallError>> {
        watch::stream(Arc::clone(&self.shared), kind, &from)
    }

    fn apply<'a>(&'a self, key: &'a ResourceKey, object: &'a Value) -> Answer<'a, Value> {
        self.shared.write(Verb::Apply, key, |state| state.apply(key, object)).boxed()
    }

    fn patch<'a>(&'a self, key: &'a ResourceKey, patch: &'a Value) -> Answer<'a, Value> {
        self.shared.write(Verb::Patch, key, |state| state.patch(key, patch)).boxed()
    }

    fn delete<'a>(
        &'a self,
        key: &'a ResourceKey,
        uid: &'a str,
        version: &'a str,
    ) -> Answer<'a, ()> {
        let act = |state: &mut State| state.guarded_delete(key, uid, version);
        self.shared.write(Verb::Delete, key, act).boxed()
    }

    fn dry_run<'a>(&'a self, key: &'a ResourceKey, draft: Draft<'a>) -> Answer<'a, Value> {
        let act = move |state: &mut State| state.dry_run(key, draft);
        async move { self.shared.read(Verb::DryRun, key.kind, act) }.boxed()
    }

    fn warnings<'a>(&'a self, key: &'a ResourceKey, uid: &'a str) -> Answer<'a, Vec<Value>> {
        let act = move |state: &mut State| {
            let of_it = state.warnings.iter().filter(|it| it["involvedObject"]["uid"] == uid);
            Ok(of_it.cloned().collect())
        };
        async move { self.shared.read(Verb::List, key.kind, act) }.boxed()
    }

    fn contents<'a>(&'a self, namespace: &'a str) -> Answer<'a, Contents> {
        let read = |state: &mut State| Ok(contents::of(state, namespace));
        async move { self.shared.read(Verb::List, Kind::Namespace, read) }.boxed()
    }
}
