//! The layer between executor and cluster that injects planned faults and records all calls.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::stream::BoxStream;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use trueup_cluster::verbs::Answer;
use trueup_cluster::{CallError, Cluster, Draft, Fence, List, Scope, WatchEvent};
use trueup_model::Clock;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::survey::Contents;
use trueup_store::Lease;

use super::journal::{Call, Target};
use super::layer_state::{Due, State};
use super::notes::Notes;
use super::plan::{Failure, Fault, FaultAction, Side, Trigger};
use super::watching;
use crate::fake_cluster::{FakeCluster, Then, Verb, Write};

/// How long an unanswered call takes: the deadline of the real client.
const DEADLINE: Duration = Duration::from_secs(10);
/// The `Retry-After` of a throttling server.
const SLOW_DOWN: Duration = Duration::from_secs(5);
/// The annotation of a foreign edit, which must be kept.
pub const NOTE: &str = "example.com/note";

/// The layer. Clones share the same layer.
#[derive(Clone)]
pub struct Layer {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) fake: FakeCluster,
    pub(super) clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Incremented when watches have to check for a fault that began.
    pub(super) recheck: watch::Sender<u64>,
    crashed: Notify,
}

impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layer").finish_non_exhaustive()
    }
}

impl Layer {
    /// A layer over this cluster with these faults.
    #[must_use]
    pub fn new(fake: &FakeCluster, clock: Arc<dyn Clock>, faults: &[Fault]) -> Self {
        let layer = Self {
            shared: Arc::new(Shared {
                fake: fake.clone(),
                clock,
                state: Mutex::new(State::new(faults)),
                recheck: watch::Sender::new(0),
                crashed: Notify::new(),
            }),
        };
        let notes = Arc::downgrade(&layer.shared);
        fake.on_write(move |_, write| {
            if let Some(shared) = notes.upgrade() {
                shared.note_effect(write);
            }
            Then::Answer
        });
        layer
    }

    /// What was recorded so far.
    #[must_use]
    pub fn notes(&self) -> Notes {
        self.shared.state().notes.clone()
    }

    /// For each fault, whether it had an effect.
    #[must_use]
    pub fn fired(&self) -> Vec<bool> {
        self.shared.state().fired()
    }

    /// Sets the step that calls belong to from now on.
    pub fn step(&self, number: usize) {
        self.shared.state().step = number;
    }

    /// Whether a lasting fault is still active.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.shared.state().is_broken(self.shared.clock.monotonic())
    }

    /// Waits until a fault crashes the process.
    pub async fn crashed(&self) {
        self.shared.crashed.notified().await;
    }

    /// Serves a new process after a crash.
    pub fn revive(&self) {
        self.shared.state().dead = false;
    }

    /// Sets the fence of a new process; opens it, unless a fault prevents that.
    pub fn set_fence(&self, fence: Arc<Fence>) {
        self.shared.state().set_fence(fence);
        self.renew_lease();
    }

    /// Renews the lease, unless a fault prevents that.
    pub fn renew_lease(&self) {
        self.shared.state().renew_lease(self.shared.clock.monotonic(), Lease::WRITE_FOR);
    }

    /// Records a violation when a workload is created before all of these exist.
    pub fn guard_workloads_with(&self, keys: impl IntoIterator<Item = ResourceKey>) {
        self.shared.state().guards.extend(keys);
    }

    /// Records that a crash point was reached; returns whether the process crashes there.
    #[must_use]
    pub fn reach(&self, point: &'static str) -> bool {
        let mut state = self.shared.state();
        if state.dead {
            return true;
        }
        let count = state.notes.points.entry(point).or_default();
        *count += 1;
        let count = *count;
        let Some(due) = state.take(&Trigger::Point(point.to_owned(), count), None) else {
            return false;
        };
        state.happened(due.fault);
        state.dead = true;
        drop(state);
        self.shared.crashed.notify_one();
        true
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Crashes the process: this call never returns, and neither does any other.
    pub(super) async fn die(&self) -> ! {
        self.state().dead = true;
        self.crashed.notify_one();
        futures::future::pending().await
    }

    pub(super) fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Whether the cluster is unreachable now.
    pub(super) fn is_unreachable(&self) -> bool {
        let now = self.clock.monotonic();
        self.state().is_unreachable(now)
    }

    /// The time until the next outage begins or ends.
    pub(super) fn next_outage_change(&self) -> Option<Duration> {
        self.state().next_outage_change(self.clock.monotonic())
    }

    /// Counts an event; returns the fault that is due at it.
    pub(super) fn event(&self, kind: Kind) -> Option<Due> {
        let mut state = self.state();
        let count = state.notes.events.entry(kind).or_default();
        *count += 1;
        let here = Trigger::Event(kind, *count);
        let step = state.step;
        state.notes.order.push((step, here.clone()));
        state.take(&here, None)
    }

    /// The version of stale lists and watches, and for how long they stay stale.
    pub(super) fn stale(&self) -> Option<(String, Duration)> {
        self.state().stale(self.clock.monotonic())
    }

    /// Records that an event was delayed or a list was stale.
    pub(super) fn note_stale(&self) {
        self.state().note_stale();
    }

    /// Records that a fault had an effect.
    pub(super) fn happened(&self, due: &Due) {
        self.state().happened(due.fault);
    }

    /// Begins a lasting fault.
    pub(super) fn begin(&self, due: &Due) {
        let now = self.clock.monotonic();
        self.state().begin(due, now, || self.fake.version());
        self.recheck.send_modify(|count| *count += 1);
    }

    /// Records an effective write; checks that policies exist before a workload.
    fn note_effect(&self, write: &Write) {
        let mut state = self.state();
        state.last_write = Some(write.clone());
        if write.created && write.key.kind.is_workload() {
            let guards = state.guards.clone();
            let missing = guards
                .iter()
                .filter(|guard| Target::of(self.fake.find(guard).as_ref()) != Target::Present);
            let wrong =
                missing.map(|guard| format!("F05: {} was created without {guard}", write.key));
            state.notes.wrong.extend(wrong);
        }
    }

    /// Counts a read and applies the planned fault.
    async fn read<T>(
        &self,
        count: impl FnOnce(&mut Notes) -> Trigger,
        call: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        if self.is_dead() {
            self.die().await;
        }
        let due = {
            let mut state = self.state();
            let here = count(&mut state.notes);
            let step = state.step;
            state.notes.order.push((step, here.clone()));
            state.take(&here, None)
        };
        self.answer(due, None, call).await
    }

    async fn write<T>(
        &self,
        verb: Verb,
        key: &ResourceKey,
        uid: Option<&str>,
        call: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        if self.is_dead() {
            self.die().await;
        }
        let target = Target::of(self.fake.find(key).as_ref());
        let (number, due) = {
            let mut state = self.state();
            let (step, at) = (state.step, self.clock.monotonic());
            let uid = uid.map(str::to_owned);
            let heard = "nothing";
            let call = Call { verb, key: key.clone(), uid, step, at, target, effect: None, heard };
            if state.is_fenced() {
                let wrong = format!("O5: {} was sent after the lease ended", call.title());
                state.notes.wrong.push(wrong);
            }
            let number = state.notes.calls.len() + 1;
            let due = state.take(&Trigger::Write(number), Some(&call));
            state.notes.order.push((step, Trigger::Write(number)));
            state.notes.calls.push(call);
            (number, due)
        };
        let noted = async {
            self.state().last_write = None;
            let answer = call.await;
            let mut state = self.state();
            let effect = state.last_write.take();
            state.notes.calls[number - 1].effect = effect;
            answer
        };
        let answer = self.answer(due, Some(key), noted).await;
        let heard = answer.as_ref().err().map_or("ok", CallError::label);
        self.state().notes.calls[number - 1].heard = heard;
        answer
    }

    /// Carries out a call, or applies the fault that is due.
    async fn answer<T>(
        &self,
        due: Option<Due>,
        key: Option<&ResourceKey>,
        call: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        if let Some(due) = &due {
            self.begin(due);
        }
        if self.is_unreachable() {
            return Err(error(Failure::Unreachable));
        }
        let now = self.clock.monotonic();
        if key.is_some_and(|key| self.state().refuse(key.kind, now)) {
            return Err(CallError::Refused("refused by a fault plan".to_owned()));
        }
        let Some(due) = due else { return call.await };
        match due.action {
            FaultAction::Crash(side) => {
                if side == Side::After {
                    let _unseen = call.await;
                }
                self.happened(&due);
                self.die().await
            }
            FaultAction::Fail(failure, _) => {
                self.happened(&due);
                Err(error(failure))
            }
            FaultAction::Lose(failure) => {
                self.carry_out(&due, call).await;
                Err(error(failure))
            }
            FaultAction::Hang(side) => {
                match side {
                    Side::Before => self.happened(&due),
                    Side::After => self.carry_out(&due, call).await,
                }
                self.clock.sleep(DEADLINE).await;
                Err(error(Failure::Unanswered))
            }
            FaultAction::ForeignEdit => {
                key.into_iter().for_each(|key| self.foreign_edit(&due, key));
                call.await
            }
            FaultAction::ForeignDelete => {
                key.into_iter().for_each(|key| self.foreign_delete(&due, key));
                call.await
            }
            FaultAction::ForeignRelabel => {
                key.into_iter().for_each(|key| self.foreign_relabel(&due, key));
                call.await
            }
            FaultAction::ForeignTakeOver(Side::Before) => {
                key.into_iter().for_each(|key| self.foreign_take_over(&due, key));
                call.await
            }
            FaultAction::ForeignTakeOver(Side::After) => {
                let answer = call.await;
                key.into_iter().for_each(|key| self.foreign_take_over(&due, key));
                answer
            }
            FaultAction::Away(_)
            | FaultAction::Flap(_)
            | FaultAction::Refuse(..)
            | FaultAction::Stale(_)
            | FaultAction::LeaseEnds(_)
            | FaultAction::Silence(..)
            | FaultAction::Twice
            | FaultAction::Drop(_) => call.await,
        }
    }

    /// Carries out a call and drops its response. A failed call does not count as a lost response.
    async fn carry_out<T>(&self, due: &Due, call: impl Future<Output = Result<T, CallError>>) {
        if call.await.is_ok() {
            self.happened(due);
        }
    }
}

/// The error of a failure.
pub(super) fn error(failure: Failure) -> CallError {
    let why = "injected by a fault plan".to_owned();
    match failure {
        Failure::Unreachable => CallError::Unreachable(why),
        Failure::Unanswered => CallError::Unanswered(why),
        Failure::Server => CallError::Server(why),
        Failure::Conflict => CallError::Conflict(why),
        Failure::Throttled => CallError::Throttled { after: SLOW_DOWN },
        Failure::Refused => CallError::Refused(why),
        Failure::Forbidden => CallError::Forbidden(why),
    }
}

impl Cluster for Layer {
    fn get<'a>(&'a self, key: &'a ResourceKey) -> Answer<'a, Option<Value>> {
        let count = |notes: &mut Notes| {
            notes.gets += 1;
            Trigger::Get(notes.gets)
        };
        self.shared.read(count, self.shared.fake.get(key)).boxed()
    }

    fn list(&self, kind: Kind, scope: Scope) -> Answer<'_, List> {
        let count = move |notes: &mut Notes| {
            let lists = notes.lists.entry(kind).or_default();
            *lists += 1;
            Trigger::List(kind, *lists)
        };
        let shared = &self.shared;
        let call = async move {
            let list = shared.fake.list(kind, scope).await?;
            match shared.stale() {
                // Proofs of absence list with a quorum read, which is never stale.
                Some((version, _)) if scope == Scope::Ours => {
                    let past = shared.fake.list_at(kind, &version);
                    if past.objects != list.objects {
                        shared.note_stale();
                    }
                    Ok(past)
                }
                _ => Ok(list),
            }
        };
        shared.read(count, call).boxed()
    }

    fn watch(&self, kind: Kind, from: String) -> BoxStream<'static, Result<WatchEvent, CallError>> {
        watching::stream(&self.shared, kind, from)
    }

    fn apply<'a>(&'a self, key: &'a ResourceKey, object: &'a Value) -> Answer<'a, Value> {
        let uid = object["metadata"]["uid"].as_str();
        self.shared.write(Verb::Apply, key, uid, self.shared.fake.apply(key, object)).boxed()
    }

    fn patch<'a>(&'a self, key: &'a ResourceKey, patch: &'a Value) -> Answer<'a, Value> {
        let uid = patch["metadata"]["uid"].as_str();
        self.shared.write(Verb::Patch, key, uid, self.shared.fake.patch(key, patch)).boxed()
    }

    fn delete<'a>(
        &'a self,
        key: &'a ResourceKey,
        uid: &'a str,
        version: &'a str,
    ) -> Answer<'a, ()> {
        let call = self.shared.fake.delete(key, uid, version);
        self.shared.write(Verb::Delete, key, Some(uid), call).boxed()
    }

    fn dry_run<'a>(&'a self, key: &'a ResourceKey, draft: Draft<'a>) -> Answer<'a, Value> {
        self.shared.fake.dry_run(key, draft)
    }

    fn warnings<'a>(&'a self, key: &'a ResourceKey, uid: &'a str) -> Answer<'a, Vec<Value>> {
        self.shared.fake.warnings(key, uid)
    }

    fn contents<'a>(&'a self, namespace: &'a str) -> Answer<'a, Contents> {
        let count = |notes: &mut Notes| {
            let lists = notes.lists.entry(Kind::Namespace).or_default();
            *lists += 1;
            Trigger::List(Kind::Namespace, *lists)
        };
        self.shared.read(count, self.shared.fake.contents(namespace)).boxed()
    }
}
