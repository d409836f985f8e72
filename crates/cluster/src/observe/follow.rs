//! Follower of one kind: lists, watches, and relists after a gap so that deletions are noticed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use trueup_model::Clock;
use trueup_model::cluster::Freshness;
use trueup_model::key::Kind;
use trueup_model::observation::Absent;
use trueup_model::order::Unit;

use crate::act::throttle::Throttle;
use crate::observe::cache::Cache;
use crate::observe::notice::Notes;
use crate::verbs::{CallError, Cluster, Scope, WatchEvent};

/// What one kind's follower needs.
pub(crate) struct Follower {
    pub(crate) kind: Kind,
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) cache: Arc<Mutex<Cache>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) freshness: watch::Sender<Freshness>,
    pub(crate) updates: mpsc::Sender<CacheUpdate>,
    pub(crate) notes: Notes,
}

/// What followers and resync send to the executor.
pub(crate) enum CacheUpdate {
    /// Objects of these units changed.
    Touched(BTreeSet<Unit>),
    /// Metadata of all objects of a kind with our label.
    Listed(Kind, Vec<Value>),
    /// The kind was listed after a gap in its watch: anything may have changed.
    Relisted,
}

/// Backoff between attempts to reach an unavailable cluster.
const PAUSE_LEAST: Duration = Duration::from_millis(500);
const PAUSE_MOST: Duration = Duration::from_secs(2);
/// After this many failed lists in a row, while other kinds are served, the kind is unavailable.
const FAILURES: u32 = 3;
/// Pause before a kind that the cluster does not accept is listed again.
const PAUSE_MISSING: Duration = Duration::from_secs(5);

impl Follower {
    /// Follows until the executor ends.
    pub(crate) async fn run(self) {
        let mut pause = PAUSE_LEAST;
        let mut failures = 0_u32;
        loop {
            let error = match self.list().await {
                Ok(version) => {
                    pause = PAUSE_LEAST;
                    failures = 0;
                    if self.updates.send(CacheUpdate::Relisted).await.is_err() {
                        return;
                    }
                    self.watch(version).await
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    Some(error)
                }
            };
            if let Some(why) = error.as_ref().and_then(|error| self.absent(error, failures)) {
                if self.mark_missing(why).await.is_err() {
                    return;
                }
                self.clock.sleep(PAUSE_MISSING).await;
                continue;
            }
            match error {
                None => return,
                Some(CallError::Expired) => {}
                Some(error) => {
                    if self.kind == Kind::Node && matches!(error, CallError::Forbidden(_)) {
                        self.cache().forbid_nodes();
                    }
                    tracing::debug!(kind = %self.kind, error = %error, "watch failed; relisting");
                    let now = self.clock.monotonic();
                    self.throttle.note_error(&error, now);
                    self.clock.sleep(self.throttle.left(now).unwrap_or(pause)).await;
                    pause = (pause * 2).min(PAUSE_MOST);
                }
            }
        }
    }

    /// Why the cluster accepts no objects of this kind, if the error says so and the kind is
    /// optional.
    ///
    /// This includes a kind whose own API server keeps failing: everything else would wait for it.
    fn absent(&self, error: &CallError, failures: u32) -> Option<Absent> {
        if !self.kind.is_optional() {
            return None;
        }
        let fails = matches!(error, CallError::Server(_)) && failures >= FAILURES;
        let unavailable = || self.cache().waits_only_for(self.kind).then_some(Absent::Unavailable);
        error.absent().or_else(|| fails.then(unavailable).flatten())
    }

    /// Marks the kind as missing; units that need it must report that.
    async fn mark_missing(&self, why: Absent) -> Result<(), mpsc::error::SendError<CacheUpdate>> {
        self.mark_fresh();
        let changed = self.cache().mark_missing(self.kind, why);
        if changed {
            tracing::info!(kind = %self.kind, ?why, "the cluster does not accept this kind");
            self.updates.send(CacheUpdate::Relisted).await?;
        }
        Ok(())
    }

    async fn list(&self) -> Result<String, CallError> {
        let list = self.cluster.list(self.kind, Scope::Ours).await?;
        let version = list.version.clone();
        self.cache().check_age(self.kind, &list)?;
        let since = self.freshness.borrow().heard.get(&self.kind).copied();
        self.notes.listed(self.kind, &list, since, self.clock.now());
        self.cache().replace(self.kind, list);
        self.mark_fresh();
        Ok(version)
    }

    /// Watches from a version until the watch fails; returns `None` when the executor has ended.
    async fn watch(&self, mut version: String) -> Option<CallError> {
        loop {
            let mut events = self.cluster.watch(self.kind, version.clone());
            while let Some(event) = events.next().await {
                let touched = match event {
                    Ok(WatchEvent::Present(object)) => {
                        version_of(&object, &mut version);
                        self.cache().watch_reached(self.kind, &version);
                        let node = self.note_present(&object);
                        self.cache().present(self.kind, object).into_iter().chain(node).collect()
                    }
                    Ok(WatchEvent::Gone(object)) => {
                        version_of(&object, &mut version);
                        let node = self.note_gone(&object);
                        self.cache().gone(self.kind, &object).into_iter().chain(node).collect()
                    }
                    Ok(WatchEvent::Bookmark(at)) => {
                        self.cache().watch_reached(self.kind, &at);
                        version = at;
                        BTreeSet::new()
                    }
                    Err(error) => return Some(error),
                };
                self.mark_fresh();
                if !touched.is_empty() {
                    self.updates.send(CacheUpdate::Touched(touched)).await.ok()?;
                }
            }
            // The server closed the watch normally: no event was missed up to now.
            self.mark_fresh();
            if self.updates.is_closed() {
                return None;
            }
        }
    }

    /// Reports an object; returns the units with pods on it if it is a node that changed.
    fn note_present(&self, object: &Value) -> BTreeSet<Unit> {
        let is_news = self.notes.present(self.kind, object, self.clock.now());
        self.units_on(object, is_news)
    }

    fn note_gone(&self, object: &Value) -> BTreeSet<Unit> {
        let is_news = self.notes.gone(self.kind, object, self.clock.now());
        self.units_on(object, is_news)
    }

    fn units_on(&self, object: &Value, is_news: bool) -> BTreeSet<Unit> {
        match object["metadata"]["name"].as_str() {
            Some(node) if is_news && self.kind == Kind::Node => self.cache().units_on(node),
            Some(_) | None => BTreeSet::new(),
        }
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark_fresh(&self) {
        let now = self.clock.now();
        self.freshness.send_modify(|freshness| {
            freshness.heard.insert(self.kind, now);
        });
    }
}

fn version_of(object: &Value, version: &mut String) {
    if let Some(at) = object["metadata"]["resourceVersion"].as_str() {
        at.clone_into(version);
    }
}
