//! Following one kind: list, watch, and start again after a break so that absence is noticed.

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
    pub(crate) news: mpsc::Sender<News>,
    pub(crate) notes: Notes,
}

/// What a follower tells the executor.
pub(crate) enum News {
    /// These units look different now.
    Touched(BTreeSet<Unit>),
    /// Everything of a kind that carries our label, by its metadata.
    Listed(Kind, Vec<Value>),
    /// The kind was listed after it had not been heard: everything may look different.
    Returned,
}

/// Between tries to reach a cluster that is away.
const PAUSE_LEAST: Duration = Duration::from_millis(500);
const PAUSE_MOST: Duration = Duration::from_secs(2);
/// So many lists in a row that the server failed, while it serves other kinds, are no hiccup.
const FAILURES: u32 = 3;
/// Until a kind that the cluster does not take is looked for again.
const PAUSE_MISSING: Duration = Duration::from_secs(5);

impl Follower {
    /// Follows for ever; ends only when nobody listens any more.
    pub(crate) async fn run(self) {
        let mut pause = PAUSE_LEAST;
        let mut failures = 0_u32;
        loop {
            let error = match self.list().await {
                Ok(version) => {
                    pause = PAUSE_LEAST;
                    failures = 0;
                    if self.news.send(News::Returned).await.is_err() {
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
                if self.miss(why).await.is_err() {
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
                        self.cache().give_up_on_nodes();
                    }
                    tracing::debug!(kind = %self.kind, error = %error, "the watch broke; listing again");
                    let now = self.clock.monotonic();
                    self.throttle.heed(&error, now);
                    self.clock.sleep(self.throttle.left(now).unwrap_or(pause)).await;
                    pause = (pause * 2).min(PAUSE_MOST);
                }
            }
        }
    }

    /// Whether an error means that the cluster takes no objects of this kind, and that we can do without.
    /// A kind whose own server fails would keep everything else waiting for ever.
    fn absent(&self, error: &CallError, failures: u32) -> Option<Absent> {
        if !self.kind.is_optional() {
            return None;
        }
        let fails = matches!(error, CallError::Server(_)) && failures >= FAILURES;
        let unavailable = || self.cache().waits_only_for(self.kind).then_some(Absent::Unavailable);
        error.absent().or_else(|| fails.then(unavailable).flatten())
    }

    /// The cluster answered, and has nothing of this kind: units that should have some must say so.
    async fn miss(&self, why: Absent) -> Result<(), mpsc::error::SendError<News>> {
        self.heard();
        let news = self.cache().miss(self.kind, why);
        if news {
            tracing::info!(kind = %self.kind, ?why, "the cluster takes no objects of this kind");
            self.news.send(News::Returned).await?;
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
        self.heard();
        Ok(version)
    }

    /// Watches from a version until the watch breaks; nothing when nobody listens any more.
    async fn watch(&self, mut version: String) -> Option<CallError> {
        loop {
            let mut events = self.cluster.watch(self.kind, version.clone());
            while let Some(heard) = events.next().await {
                let touched = match heard {
                    Ok(WatchEvent::Present(object)) => {
                        version_of(&object, &mut version);
                        self.cache().heard_of(self.kind, &version);
                        let node = self.note_present(&object);
                        self.cache().present(self.kind, object).into_iter().chain(node).collect()
                    }
                    Ok(WatchEvent::Gone(object)) => {
                        version_of(&object, &mut version);
                        let node = self.note_gone(&object);
                        self.cache().gone(self.kind, &object).into_iter().chain(node).collect()
                    }
                    Ok(WatchEvent::Bookmark(at)) => {
                        self.cache().heard_of(self.kind, &at);
                        version = at;
                        BTreeSet::new()
                    }
                    Err(error) => return Some(error),
                };
                self.heard();
                if !touched.is_empty() {
                    self.news.send(News::Touched(touched)).await.ok()?;
                }
            }
            // The server ended the watch in good order: up to now nothing was missed.
            self.heard();
            if self.news.is_closed() {
                return None;
            }
        }
    }

    /// Takes note of an object; answers whose pods a node carries that is not as it was.
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

    fn heard(&self) {
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
