//! An in-memory cluster that behaves like a real one, as far as Trueup depends on it.
//!
//! Fault plans need thousands of clusters, and a real one cannot be stopped between carrying out a
//! call and answering it. The [contract](crate::contract) defines the behaviour: it runs on this
//! cluster and on a real API server.
//!
//! It is deterministic: versions and uids are counters, times are derived from versions, and the
//! built-in controllers run until idle within the call that caused their work.

mod apply;
mod calls;
mod collect;
mod contents;
mod controllers;
mod defaults;
mod faults;
mod jobs;
mod managers;
mod pods;
mod snapshot;
mod state;
mod validate;
mod verbs;
mod volumes;
mod watch;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use trueup_cluster::{CallError, List};
use trueup_model::key::{Kind, ResourceKey};

pub use defaults::fill_defaults;
use faults::Faults;
pub use state::Count;
use state::State;

/// How long a watch stays open by default.
const WATCH_LIMIT: Duration = Duration::from_secs(20);

/// The field manager of foreign edits.
pub const FOREIGN_MANAGER: &str = "another-writer";

/// The verbs of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read all objects of a kind.
    List,
    /// Stream changes.
    Watch,
    /// Server-side apply.
    Apply,
    /// Merge patch.
    Patch,
    /// Delete with uid and version preconditions.
    Delete,
    /// Server-side dry run of a write.
    DryRun,
}

/// Whether a fault happens before or after the call takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The call has no effect.
    Before,
    /// The call takes effect, and its response is lost.
    After,
}

/// Why calls for a kind fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// The API server does not serve it: its CRD is not installed.
    Unserved,
    /// RBAC denies all verbs.
    Forbidden,
    /// RBAC allows reads only.
    ReadOnly,
    /// Its API server fails, as for an APIService without a backend.
    Failing,
}

/// When the built-in controllers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controllers {
    /// After every change, until idle.
    Automatic,
    /// Only in [`FakeCluster::settle_controllers`].
    Manual,
}

/// A write call that reached the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Apply, Patch or Delete.
    pub verb: Verb,
    /// The key of the written object.
    pub key: ResourceKey,
    /// The uid of the changed object; empty if nothing changed.
    pub uid: String,
    /// Whether this write created the object.
    pub created: bool,
    /// Whether it changed anything: false for a refused write or a no-op.
    pub effective: bool,
}

/// How to answer a call whose write just took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Then {
    /// With its result.
    Answer,
    /// With this error: the response is lost.
    Lose(CallError),
    /// Never: the caller is about to be dropped, as in a crash.
    Hang,
}

type OnWrite = Arc<dyn Fn(usize, &Write) -> Then + Send + Sync>;

/// The cluster. Clones share the same cluster.
///
/// Dropping the first handle fails the test if an injected fault never happened: see
/// [`FakeCluster::assert_no_faults_left`].
pub struct FakeCluster {
    shared: Arc<Shared>,
    is_first: bool,
}

impl Clone for FakeCluster {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), is_first: false }
    }
}

impl Drop for FakeCluster {
    fn drop(&mut self) {
        if self.is_first && !thread::panicking() {
            self.assert_no_faults_left();
        }
    }
}

struct Shared {
    inner: Mutex<Inner>,
    /// Incremented whenever a watch may have a new event.
    news: tokio::sync::watch::Sender<u64>,
    /// The number of open watches.
    watches: AtomicUsize,
}

struct Inner {
    state: State,
    reachable: bool,
    controllers: Controllers,
    watch_limit: Duration,
    faults: Faults,
    /// Kinds whose calls fail.
    closed: BTreeMap<Kind, Closed>,
    journal: Vec<Write>,
    /// The number of effective writes.
    effects: usize,
    /// The number of calls by verb and kind.
    calls: BTreeMap<(Verb, Kind), usize>,
    /// Kinds whose watches drop all events.
    deaf: BTreeSet<Kind>,
    on_write: Option<OnWrite>,
}

impl fmt::Debug for FakeCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeCluster").finish_non_exhaustive()
    }
}

impl Default for FakeCluster {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeCluster {
    /// A reachable cluster with one node, nothing else, and automatic controllers.
    #[must_use]
    pub fn new() -> Self {
        let (key, node) = pods::node();
        let mut state = State::default();
        state.edit(&key, |object| *object = node);
        // As on a long-running server, history does not go back to the start.
        state.compact();
        let inner = Inner {
            state,
            reachable: true,
            controllers: Controllers::Automatic,
            watch_limit: WATCH_LIMIT,
            faults: Faults::default(),
            closed: BTreeMap::new(),
            journal: Vec::new(),
            effects: 0,
            calls: BTreeMap::new(),
            deaf: BTreeSet::new(),
            on_write: None,
        };
        let news = tokio::sync::watch::Sender::new(0);
        let (inner, watches) = (Mutex::new(inner), AtomicUsize::new(0));
        Self { shared: Arc::new(Shared { inner, news, watches }), is_first: true }
    }

    /// Makes the cluster unreachable or reachable. Open watches fail when it becomes unreachable.
    pub fn set_reachable(&self, reachable: bool) {
        self.shared.lock().reachable = reachable;
        self.shared.notify_watches();
    }

    /// Sets how long a watch stays open; the default is 20 seconds.
    pub fn set_watch_limit(&self, limit: Duration) {
        self.shared.lock().watch_limit = limit;
    }

    /// Makes calls for a kind fail, or work again. A kind that is not served loses its objects.
    pub fn close(&self, kind: Kind, how: Option<Closed>) {
        let mut inner = self.shared.lock();
        match how {
            Some(how) => _ = inner.closed.insert(kind, how),
            None => _ = inner.closed.remove(&kind),
        }
        if how == Some(Closed::Unserved) {
            inner.state.clear(kind);
        }
        drop(inner);
        self.shared.notify_watches();
    }

    /// Sets when the controllers run.
    pub fn set_controllers(&self, controllers: Controllers) {
        self.shared.lock().controllers = controllers;
    }

    /// Runs the controllers until idle.
    pub fn settle_controllers(&self) {
        controllers::run_until_idle(&mut self.shared.lock().state);
        self.shared.notify_watches();
    }

    /// Fails the next call with this verb that has no fault yet.
    pub fn fail_next(&self, verb: Verb, error: CallError, when: When) {
        self.shared.lock().faults.add(verb, error, when);
    }

    /// Fails every call with this verb from now on, before it takes effect.
    pub fn fail_every(&self, verb: Verb, error: CallError) {
        self.shared.lock().faults.add_lasting(verb, error);
    }

    /// Asserts that every injected fault happened, each of [`Self::fail_every`] at least once.
    ///
    /// A test whose fault never happened proves nothing.
    ///
    /// # Panics
    /// A fault did not happen.
    pub fn assert_no_faults_left(&self) {
        let left = self.shared.lock().faults.left();
        assert!(left.is_empty(), "these injected faults never happened: {left:?}");
    }

    /// Installs an admission webhook, which may change or refuse applied and patched objects.
    pub fn set_webhook(
        &self,
        webhook: impl Fn(&ResourceKey, &mut Value) -> Result<(), CallError> + Send + Sync + 'static,
    ) {
        self.shared.lock().state.admission.0 = Some(Arc::new(webhook));
    }

    /// Removes the admission webhook.
    pub fn remove_webhook(&self) {
        self.shared.lock().state.admission.0 = None;
    }

    /// Calls this after every effective write to decide how to answer; the number counts from 1.
    pub fn on_write(&self, decide: impl Fn(usize, &Write) -> Then + Send + Sync + 'static) {
        self.shared.lock().on_write = Some(Arc::new(decide));
    }

    /// Makes watches of this kind drop all events, or deliver them again. Dropped events are never
    /// delivered later.
    pub fn set_deaf(&self, kind: Kind, deaf: bool) {
        let mut inner = self.shared.lock();
        if deaf {
            inner.deaf.insert(kind);
        } else {
            inner.deaf.remove(&kind);
        }
    }

    /// Compacts the history: every watch from an earlier version, open or new, expires and needs a
    /// new list.
    pub fn compact(&self) {
        self.shared.lock().state.compact();
        self.shared.notify_watches();
    }

    /// Changes an object as a foreign writer, or creates it: then the closure gets an object with
    /// only type and name.
    pub fn edit(&self, key: &ResourceKey, change: impl FnOnce(&mut Value)) {
        self.shared.outside(|state| state.edit_as(FOREIGN_MANAGER, key, change));
    }

    /// Deletes an object as a foreign writer.
    pub fn remove(&self, key: &ResourceKey) {
        self.shared.outside(|state| state.delete(key));
    }

    /// Makes the server of this API group unavailable, or all of them available again.
    ///
    /// While one is unavailable, no namespace can terminate, as with an APIService without a
    /// backend.
    pub fn break_api_service(&self, group: Option<&str>) {
        self.shared.outside(|state| {
            state.broken_group = group.map(str::to_owned);
            state.revisit_namespaces();
        });
    }

    /// Every write call that reached the server, in order, including refused writes and no-ops.
    #[must_use]
    pub fn journal(&self) -> Vec<Write> {
        self.shared.lock().journal.clone()
    }

    /// The writes of the journal that changed something.
    #[must_use]
    pub fn effects(&self) -> Vec<Write> {
        let mut writes = self.journal();
        writes.retain(|write| write.effective);
        writes
    }

    /// The number of calls with this verb on this kind that reached the server.
    #[must_use]
    pub fn calls(&self, verb: Verb, kind: Kind) -> usize {
        self.shared.lock().calls.get(&(verb, kind)).copied().unwrap_or_default()
    }

    /// The number of open watches of all kinds.
    #[must_use]
    pub fn open_watches(&self) -> usize {
        self.shared.watches.load(Ordering::SeqCst)
    }

    /// How often each key was created and deleted, by any writer.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<ResourceKey, Count> {
        self.shared.lock().state.counts().clone()
    }

    /// The object with this key.
    #[must_use]
    pub fn find(&self, key: &ResourceKey) -> Option<Value> {
        self.shared.lock().state.get(key).cloned()
    }

    /// The version of the last change.
    #[must_use]
    pub fn version(&self) -> String {
        self.shared.lock().state.version().to_string()
    }

    /// Our objects of a kind at an earlier version, as a stale API server would list them.
    #[must_use]
    pub fn list_at(&self, kind: Kind, version: &str) -> List {
        self.shared.lock().state.list_at(kind, version.parse().unwrap_or_default())
    }

    /// All objects of a kind, ordered by key.
    #[must_use]
    pub fn objects(&self, kind: Kind) -> Vec<Value> {
        self.shared.lock().state.of_kind(kind).map(|(_, object)| object.clone()).collect()
    }

    /// Emits a warning event about the object with this key, as a controller or kubelet would.
    pub fn warn(&self, key: &ResourceKey, reason: &str, message: &str, at: Timestamp) {
        self.shared.lock().state.warn(key, reason, message, &at.to_string());
    }

    /// All objects without the fields that differ between equivalent runs: uids, versions, times.
    #[must_use]
    pub fn snapshot(&self) -> BTreeMap<String, Value> {
        snapshot::take(&self.shared.lock().state)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("should not be poisoned: nothing panics under this lock")
    }

    fn notify_watches(&self) {
        self.news.send_modify(|count| *count += 1);
    }

    /// Makes a change that is not a call of Trueup.
    fn outside(&self, change: impl FnOnce(&mut State)) {
        let mut inner = self.lock();
        change(&mut inner.state);
        inner.run_controllers();
        drop(inner);
        self.notify_watches();
    }
}

impl Inner {
    /// Fails a call before it takes effect, or returns the error that replaces its response.
    fn admit(&mut self, verb: Verb, kind: Kind) -> Result<Option<CallError>, CallError> {
        if !self.reachable {
            return Err(CallError::Unreachable("the fake cluster is unreachable".to_owned()));
        }
        *self.calls.entry((verb, kind)).or_default() += 1;
        if let Some(error) = self.refusal(verb, kind) {
            return Err(error);
        }
        match self.faults.take(verb) {
            None => Ok(None),
            Some((error, When::Before)) => Err(error),
            Some((error, When::After)) => Ok(Some(error)),
        }
    }

    /// The error of a call for a kind that is closed.
    fn refusal(&self, verb: Verb, kind: Kind) -> Option<CallError> {
        let reads = matches!(verb, Verb::Get | Verb::List | Verb::Watch);
        let forbidden = || CallError::Forbidden(format!("User \"trueup\" cannot use {kind}"));
        match self.closed.get(&kind)? {
            Closed::Unserved => Some(CallError::UnknownKind(kind.to_string())),
            Closed::Failing => Some(CallError::Server("service unavailable".to_owned())),
            Closed::ReadOnly if reads => None,
            Closed::Forbidden | Closed::ReadOnly => Some(forbidden()),
        }
    }

    fn run_controllers(&mut self) {
        match self.controllers {
            Controllers::Automatic => controllers::run_until_idle(&mut self.state),
            Controllers::Manual => {}
        }
    }
}
