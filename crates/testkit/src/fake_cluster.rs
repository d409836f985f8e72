//! A cluster in memory that keeps the promises of a real one as far as Trueup leans on them.
//!
//! Plans with a fault at every write need thousands of clusters, and a real one cannot be stopped
//! between "carried out" and "answered". What this one promises is not decided here: the
//! [contract](crate::contract) runs on it and on a real API server.
//!
//! It is deterministic: versions and uids are counters, times are derived from versions, and the
//! built-in controllers run to rest inside the call that gave them work.

mod apply;
mod calls;
mod collect;
mod contents;
mod controllers;
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

use faults::Faults;
pub use state::Count;
use state::State;

/// How a real server limits a watch.
const WATCH_LIMIT: Duration = Duration::from_secs(20);

/// The field manager of whoever edits from outside.
pub const SOMEBODY: &str = "somebody";

/// The ways to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Read one.
    Get,
    /// Read all.
    List,
    /// Follow changes.
    Watch,
    /// Server-side apply.
    Apply,
    /// Merge patch.
    Patch,
    /// Guarded delete.
    Delete,
    /// A write that is only tried.
    Rehearse,
}

/// On which side of the effect a fault falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Nothing is done.
    Before,
    /// It is carried out and the answer is lost.
    After,
}

/// How a kind is out of reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// It is not served: its definition is missing.
    Unserved,
    /// We may not use it.
    Forbidden,
    /// We may look at it and not write it.
    ReadOnly,
    /// The server behind it fails, as that of an APIService that points to nowhere.
    Failing,
}

/// Who runs the built-in controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controllers {
    /// Every change brings them to rest at once.
    Automatic,
    /// Only [`FakeCluster::settle_controllers`] does.
    Manual,
}

/// A write through the six verbs that reached the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Apply, Patch or Delete.
    pub verb: Verb,
    /// What was written.
    pub key: ResourceKey,
    /// The uid of the object that it changed; empty where it changed none.
    pub uid: String,
    /// Whether this write created the object.
    pub created: bool,
    /// Whether it changed anything: not if it was refused, or if it said what was stored already.
    pub effective: bool,
}

/// What becomes of a call whose write was just carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Then {
    /// It is answered.
    Answer,
    /// The answer is lost and this error comes instead.
    Lose(CallError),
    /// It never returns: the caller is about to be dropped, as in a crash.
    Hang,
}

type OnWrite = Arc<dyn Fn(usize, &Write) -> Then + Send + Sync>;

/// The cluster. Clones are the same cluster. Dropping the first handle fails a test whose injected
/// faults were not all met: see [`FakeCluster::assert_no_faults_left`].
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
    /// Raised whenever a watch may have something to say.
    news: tokio::sync::watch::Sender<u64>,
    /// How many watches are open.
    watches: AtomicUsize,
}

struct Inner {
    state: State,
    reachable: bool,
    controllers: Controllers,
    watch_limit: Duration,
    faults: Faults,
    /// Kinds that are not served, or that nobody lets us near.
    closed: BTreeMap<Kind, Closed>,
    journal: Vec<Write>,
    /// How many of the writes were effective.
    effects: usize,
    /// How often each verb was used on each kind.
    calls: BTreeMap<(Verb, Kind), usize>,
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
    /// A cluster with one node and nothing else, reachable, with its controllers at work.
    #[must_use]
    pub fn new() -> Self {
        let (key, node) = pods::node();
        let mut state = State::default();
        state.edit(&key, |object| *object = node);
        // As on a server that has served for a while, history does not go back to the beginning.
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

    /// Cuts the cluster off, or lets it back in. Watches end when it is cut off.
    pub fn set_reachable(&self, reachable: bool) {
        self.shared.lock().reachable = reachable;
        self.shared.tell();
    }

    /// How long a watch stays open from now on; about twenty seconds unless told.
    pub fn set_watch_limit(&self, limit: Duration) {
        self.shared.lock().watch_limit = limit;
    }

    /// Takes a kind out of reach, or lets it back in. A kind that is not served has no objects.
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
        self.shared.tell();
    }

    /// Who runs the controllers from now on.
    pub fn set_controllers(&self, controllers: Controllers) {
        self.shared.lock().controllers = controllers;
    }

    /// Lets the controllers work until they rest.
    pub fn settle_controllers(&self) {
        controllers::settle(&mut self.shared.lock().state);
        self.shared.tell();
    }

    /// The next call with this verb that has no fault yet fails like this.
    pub fn fail_next(&self, verb: Verb, error: CallError, when: When) {
        self.shared.lock().faults.add(verb, error, when);
    }

    /// Every call with this verb fails like this from now on, before anything is done.
    pub fn fail_every(&self, verb: Verb, error: CallError) {
        self.shared.lock().faults.add_lasting(verb, error);
    }

    /// Asserts that every fault of [`Self::fail_next`] was met, and each of [`Self::fail_every`] at
    /// least once: a test whose fault never happened proves nothing.
    ///
    /// # Panics
    /// Some were not.
    pub fn assert_no_faults_left(&self) {
        let left = self.shared.lock().faults.left();
        assert!(left.is_empty(), "these injected faults never happened: {left:?}");
    }

    /// Installs an admission webhook, which may change or refuse what is applied or patched.
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

    /// Asks this after every effective write what becomes of the call; the number counts from 1.
    pub fn on_write(&self, ask: impl Fn(usize, &Write) -> Then + Send + Sync + 'static) {
        self.shared.lock().on_write = Some(Arc::new(ask));
    }

    /// From now on watches of this kind say nothing of what happens, or do again. What was not said is
    /// never said later: a watch with a hole.
    pub fn set_deaf(&self, kind: Kind, deaf: bool) {
        let mut inner = self.shared.lock();
        if deaf {
            inner.deaf.insert(kind);
        } else {
            inner.deaf.remove(&kind);
        }
    }

    /// Forgets all history: every watch, open or new, from a version before this must start from a
    /// new list.
    pub fn compact(&self) {
        self.shared.lock().state.compact();
        self.shared.tell();
    }

    /// Somebody else changes an object, or makes it where it is not there: the closure then gets
    /// one that has only its type and name.
    pub fn edit(&self, key: &ResourceKey, change: impl FnOnce(&mut Value)) {
        self.shared.outside(|state| state.edit_as(SOMEBODY, key, change));
    }

    /// Somebody else deletes an object.
    pub fn remove(&self, key: &ResourceKey) {
        self.shared.outside(|state| state.delete(key));
    }

    /// The server behind this API group stops answering, or all answer again: while one does not, no
    /// namespace ends, as with an APIService that points to nowhere.
    pub fn break_api_service(&self, group: Option<&str>) {
        self.shared.outside(|state| {
            state.broken_group = group.map(str::to_owned);
            state.revisit_namespaces();
        });
    }

    /// Every write through the six verbs that reached the server, in order: also those that were
    /// refused, and those that changed nothing.
    #[must_use]
    pub fn journal(&self) -> Vec<Write> {
        self.shared.lock().journal.clone()
    }

    /// Of these, the ones that changed something.
    #[must_use]
    pub fn effects(&self) -> Vec<Write> {
        let mut writes = self.journal();
        writes.retain(|write| write.effective);
        writes
    }

    /// How many calls with this verb on this kind reached the server.
    #[must_use]
    pub fn calls(&self, verb: Verb, kind: Kind) -> usize {
        self.shared.lock().calls.get(&(verb, kind)).copied().unwrap_or_default()
    }

    /// How many watches are open now, of all kinds.
    #[must_use]
    pub fn open_watches(&self) -> usize {
        self.shared.watches.load(Ordering::SeqCst)
    }

    /// How often each key came into being and went, whoever caused it.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<ResourceKey, Count> {
        self.shared.lock().state.counts().clone()
    }

    /// What stands at this key.
    #[must_use]
    pub fn find(&self, key: &ResourceKey) -> Option<Value> {
        self.shared.lock().state.get(key).cloned()
    }

    /// The version of the last change.
    #[must_use]
    pub fn version(&self) -> String {
        self.shared.lock().state.version().to_string()
    }

    /// Our objects of a kind as they were at a version: what a server that lags behind would list.
    #[must_use]
    pub fn list_at(&self, kind: Kind, version: &str) -> List {
        self.shared.lock().state.list_at(kind, version.parse().unwrap_or_default())
    }

    /// All objects of a kind, in the order of their keys.
    #[must_use]
    pub fn objects(&self, kind: Kind) -> Vec<Value> {
        self.shared.lock().state.of_kind(kind).map(|(_, object)| object.clone()).collect()
    }

    /// Warns of what stands at a key now, as a controller or a kubelet would.
    pub fn warn(&self, key: &ResourceKey, reason: &str, message: &str, at: Timestamp) {
        self.shared.lock().state.warn(key, reason, message, &at.to_string());
    }

    /// The whole cluster without what differs between two runs that mean the same: uids, versions,
    /// times.
    #[must_use]
    pub fn snapshot(&self) -> BTreeMap<String, Value> {
        snapshot::take(&self.shared.lock().state)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("should not be poisoned: nothing panics under this lock")
    }

    fn tell(&self) {
        self.news.send_modify(|count| *count += 1);
    }

    /// A change that does not come through the six verbs.
    fn outside(&self, change: impl FnOnce(&mut State)) {
        let mut inner = self.lock();
        change(&mut inner.state);
        inner.run_controllers();
        drop(inner);
        self.tell();
    }
}

impl Inner {
    /// Whether a call gets through at all, and the error that takes the place of its answer.
    fn admit(&mut self, verb: Verb, kind: Kind) -> Result<Option<CallError>, CallError> {
        if !self.reachable {
            return Err(CallError::Unreachable("the fake cluster is cut off".to_owned()));
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

    /// What comes of asking for a kind that is out of reach.
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
            Controllers::Automatic => controllers::settle(&mut self.state),
            Controllers::Manual => {}
        }
    }
}
