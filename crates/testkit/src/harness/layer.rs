//! The layer between an executor and its cluster that breaks what a plan says, and notes the rest.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::mem::discriminant;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::stream::BoxStream;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use trueup_cluster::verbs::Answer;
use trueup_cluster::{CallError, Cluster, Draft, Heard, List, Scope};
use trueup_model::Clock;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::survey::Contents;

use super::journal::Call;
use super::plan::{Action, Failure, Fault, Side, Trigger};
use super::watching;
use crate::fake_cluster::{FakeCluster, Verb, Write};

/// How long a call takes that nobody answers: the deadline of the real client.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long a server that throttles asks to wait.
const SLOW_DOWN: Duration = Duration::from_secs(5);
/// What somebody else writes, to see later that it is still there.
pub const NOTE: &str = "example.com/note";

/// The layer. Clones are the same layer.
#[derive(Clone)]
pub struct Layer {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) fake: FakeCluster,
    pub(super) clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Raised when watches have to look around.
    pub(super) turn: watch::Sender<u64>,
    crashed: Notify,
}

#[derive(Default)]
struct State {
    faults: Vec<Pending>,
    notes: Notes,
    step: usize,
    dead: bool,
    /// Cut off in these spans of monotonic time.
    away: Vec<(Duration, Duration)>,
    refused: Option<(Kind, Duration)>,
    stale: Option<(String, Duration)>,
    last_write: Option<Write>,
}

struct Pending {
    fault: Fault,
    /// How often it happens; zero once it is spent.
    left: usize,
    fired: bool,
}

/// What was counted and noted.
#[derive(Debug, Default, Clone)]
pub struct Notes {
    /// Every write that was sent.
    pub calls: Vec<Call>,
    /// Fresh reads of one object.
    pub gets: usize,
    /// Lists, by kind.
    pub lists: BTreeMap<Kind, usize>,
    /// Events heard, by kind.
    pub events: BTreeMap<Kind, usize>,
    /// Crash points reached.
    pub points: BTreeMap<&'static str, usize>,
    /// What somebody else wrote on: which key, which incarnation.
    pub foreign: BTreeSet<(ResourceKey, String)>,
}

impl Notes {
    /// Whether this moment came.
    #[must_use]
    pub fn reached(&self, at: &Trigger) -> bool {
        let (count, wanted) = match at {
            Trigger::Write(number) => (self.calls.len(), *number),
            Trigger::Get(number) => (self.gets, *number),
            Trigger::List(kind, number) => (count(&self.lists, kind), *number),
            Trigger::Event(kind, number) => (count(&self.events, kind), *number),
            Trigger::Point(point, number) => (count(&self.points, point.as_str()), *number),
        };
        count >= wanted
    }
}

fn count<K: Ord + Borrow<Q>, Q: Ord + ?Sized>(counts: &BTreeMap<K, usize>, of: &Q) -> usize {
    counts.get(of).copied().unwrap_or_default()
}

impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layer").finish_non_exhaustive()
    }
}

impl Layer {
    /// A layer over this cluster that breaks what these faults say.
    #[must_use]
    pub fn new(fake: &FakeCluster, clock: Arc<dyn Clock>, faults: &[Fault]) -> Self {
        let faults = faults.iter().map(|fault| Pending {
            fault: fault.clone(),
            left: if let Action::Fail(_, times) = fault.then { times.max(1) } else { 1 },
            fired: false,
        });
        let state = State { faults: faults.collect(), ..State::default() };
        let layer = Self {
            shared: Arc::new(Shared {
                fake: fake.clone(),
                clock,
                state: Mutex::new(state),
                turn: watch::Sender::new(0),
                crashed: Notify::new(),
            }),
        };
        let notes = Arc::downgrade(&layer.shared);
        fake.on_write(move |_, write| {
            if let Some(shared) = notes.upgrade() {
                shared.state().last_write = Some(write.clone());
            }
            crate::fake_cluster::Then::Answer
        });
        layer
    }

    /// What was noted so far.
    #[must_use]
    pub fn notes(&self) -> Notes {
        self.shared.state().notes.clone()
    }

    /// Which of the faults have happened.
    #[must_use]
    pub fn fired(&self) -> Vec<bool> {
        self.shared.state().faults.iter().map(|pending| pending.fired).collect()
    }

    /// From now on writes belong to this step.
    pub fn step(&self, number: usize) {
        self.shared.state().step = number;
    }

    /// Whether anything that a fault began still lasts.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        let now = self.shared.clock.monotonic();
        let state = self.shared.state();
        state.away.iter().any(|(_, until)| *until > now)
            || state.refused.as_ref().is_some_and(|(_, until)| *until > now)
            || state.stale.as_ref().is_some_and(|(_, until)| *until > now)
    }

    /// Waits until the process is to die.
    pub async fn crashed(&self) {
        self.shared.crashed.notified().await;
    }

    /// A new process begins: it is served again.
    pub fn revive(&self) {
        self.shared.state().dead = false;
    }

    /// A crash point was reached; says whether the process dies there.
    #[must_use]
    pub fn reach(&self, point: &'static str) -> bool {
        let mut state = self.shared.state();
        if state.dead {
            return true;
        }
        let count = state.notes.points.entry(point).or_default();
        *count += 1;
        let count = *count;
        if state.take(&Trigger::Point(point.to_owned(), count)).is_none() {
            return false;
        }
        state.dead = true;
        drop(state);
        self.shared.crashed.notify_one();
        true
    }
}

impl State {
    /// The fault that happens at this moment, if there is one.
    fn take(&mut self, here: &Trigger) -> Option<Action> {
        let pending = self.faults.iter_mut().find(|pending| {
            // One that happens several times goes on once it has begun.
            let goes_on = pending.fired && discriminant(&pending.fault.at) == discriminant(here);
            pending.left > 0 && (pending.fault.at == *here || goes_on)
        })?;
        pending.left -= 1;
        pending.fired = true;
        Some(pending.fault.then.clone())
    }

    fn is_away(&self, now: Duration) -> bool {
        self.away.iter().any(|(from, until)| *from <= now && now < *until)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process ends: this call never returns, and neither does any other.
    pub(super) async fn die(&self) -> ! {
        self.state().dead = true;
        self.crashed.notify_one();
        futures::future::pending().await
    }

    pub(super) fn is_dead(&self) -> bool {
        self.state().dead
    }

    pub(super) fn is_away(&self) -> bool {
        let now = self.clock.monotonic();
        self.state().is_away(now)
    }

    /// The next moment at which being away begins or ends.
    pub(super) fn next_turn(&self) -> Option<Duration> {
        let now = self.clock.monotonic();
        let state = self.state();
        let turns = state.away.iter().flat_map(|(from, until)| [*from, *until]);
        turns.filter(|turn| *turn > now).min().map(|turn| turn - now)
    }

    /// Counts an event; answers with what happens at it.
    pub(super) fn event(&self, kind: Kind) -> Option<Action> {
        let mut state = self.state();
        let count = state.notes.events.entry(kind).or_default();
        *count += 1;
        let count = *count;
        state.take(&Trigger::Event(kind, count))
    }

    /// The version that all reads but fresh ones are pinned to, and for how long.
    pub(super) fn stale(&self) -> Option<(String, Duration)> {
        let now = self.clock.monotonic();
        let stale = self.state().stale.clone();
        stale.filter(|(_, until)| *until > now).map(|(version, until)| (version, until - now))
    }

    /// What lasts for a while begins.
    pub(super) fn begin(&self, action: &Action) {
        let now = self.clock.monotonic();
        let seconds = Duration::from_secs;
        match action {
            Action::Away(length) => self.state().away.push((now, now + seconds(*length))),
            Action::Flap(times) => {
                for turn in 0..*times {
                    let from = now + seconds(turn * 4);
                    self.state().away.push((from, from + seconds(2)));
                }
            }
            Action::Refuse(kind, length) => {
                self.state().refused = Some((*kind, now + seconds(*length)));
            }
            Action::Stale(length) => {
                let version = self.fake.version();
                self.state().stale = Some((version, now + seconds(*length)));
            }
            Action::Crash(_)
            | Action::Fail(..)
            | Action::Lose(_)
            | Action::Hang(_)
            | Action::ForeignEdit
            | Action::ForeignDelete
            | Action::Silence(..)
            | Action::Twice
            | Action::Drop(_) => {}
        }
        self.turn.send_modify(|turn| *turn += 1);
    }

    /// One read: counted, then broken as planned.
    async fn read<T>(
        &self,
        count: impl FnOnce(&mut Notes) -> Trigger,
        call: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        if self.is_dead() {
            self.die().await;
        }
        let action = {
            let mut state = self.state();
            let here = count(&mut state.notes);
            state.take(&here)
        };
        self.answer(action, None, call).await
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
        let now = self.clock.monotonic();
        let (number, action) = {
            let mut state = self.state();
            let step = state.step;
            let uid = uid.map(str::to_owned);
            let heard = "nothing";
            let call = Call { verb, key: key.clone(), uid, step, effect: None, heard };
            state.notes.calls.push(call);
            let number = state.notes.calls.len();
            (number, state.take(&Trigger::Write(number)))
        };
        let refused = self.state().refused;
        let is_refused = refused.is_some_and(|(kind, until)| kind == key.kind && until > now);
        let noted = async {
            self.state().last_write = None;
            let answer = call.await;
            let mut state = self.state();
            let effect = state.last_write.take();
            state.notes.calls[number - 1].effect = effect;
            answer
        };
        let answer = if is_refused {
            Err(CallError::Refused("the harness refuses this kind for a while".to_owned()))
        } else {
            self.answer(action, Some(key), noted).await
        };
        let heard = answer.as_ref().err().map_or("ok", CallError::label);
        self.state().notes.calls[number - 1].heard = heard;
        answer
    }

    /// Carries out a call, or does to it what a plan says.
    async fn answer<T>(
        &self,
        action: Option<Action>,
        key: Option<&ResourceKey>,
        call: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        if let Some(action) = &action {
            self.begin(action);
        }
        if self.is_away() {
            return Err(error(Failure::Unreachable));
        }
        match action {
            Some(Action::Crash(Side::Before)) => self.die().await,
            Some(Action::Crash(Side::After)) => {
                let _unseen = call.await;
                self.die().await
            }
            Some(Action::Fail(failure, _)) => Err(error(failure)),
            Some(Action::Lose(failure)) => {
                let _unseen = call.await;
                Err(error(failure))
            }
            Some(Action::Hang(side)) => {
                if side == Side::After {
                    let _unseen = call.await;
                }
                self.clock.sleep(DEADLINE).await;
                Err(error(Failure::Unanswered))
            }
            Some(Action::ForeignEdit) => {
                key.into_iter().for_each(|key| self.scribble(key));
                call.await
            }
            Some(Action::ForeignDelete) => {
                key.into_iter().for_each(|key| self.fake.remove(key));
                call.await
            }
            Some(Action::Refuse(kind, _)) if key.is_some_and(|key| key.kind == kind) => {
                Err(error(Failure::Refused))
            }
            Some(
                Action::Away(_)
                | Action::Flap(_)
                | Action::Refuse(..)
                | Action::Stale(_)
                | Action::Silence(..)
                | Action::Twice
                | Action::Drop(_),
            )
            | None => call.await,
        }
    }

    /// Somebody else writes on what stands there.
    fn scribble(&self, key: &ResourceKey) {
        let found = self.fake.find(key);
        let Some(uid) = found.as_ref().and_then(|object| object["metadata"]["uid"].as_str()) else {
            return;
        };
        self.state().notes.foreign.insert((key.clone(), uid.to_owned()));
        self.fake.edit(key, |object| object["metadata"]["annotations"][NOTE] = "theirs".into());
    }
}

/// How a failure looks to the executor.
pub(super) fn error(failure: Failure) -> CallError {
    let why = "as the plan says".to_owned();
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
                // What is asked for as a proof is read from the quorum, whatever the plan says.
                Some((version, _)) if scope == Scope::Ours => {
                    Ok(shared.fake.list_at(kind, &version))
                }
                _ => Ok(list),
            }
        };
        shared.read(count, call).boxed()
    }

    fn watch(&self, kind: Kind, from: String) -> BoxStream<'static, Result<Heard, CallError>> {
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

    fn rehearse<'a>(&'a self, key: &'a ResourceKey, draft: Draft<'a>) -> Answer<'a, Value> {
        self.shared.fake.rehearse(key, draft)
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
