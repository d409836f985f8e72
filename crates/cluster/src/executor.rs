//! The executor of one cluster: holds its orders, watches the cluster, and repairs on its own.
//!
//! Orders come in, reports go out. It re-plans a unit when its order changes, when a watch reports
//! a change of its objects, and when a retry is due.

mod drift;
mod dry_run;
pub(crate) mod pass;
mod queue;
mod report;
mod rounds;
mod sweep;

use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc::{self, Receiver};
use tokio::sync::{oneshot, watch};
use tokio::task::{self, JoinSet};
use tracing::Instrument;
use trueup_model::cluster::Freshness;
use trueup_model::key::Kind;
use trueup_model::order::{Order, Unit};
use trueup_model::report::{Outcome, Report};
use trueup_model::service::DesiredState;
use trueup_model::{Clock, ProjectId};
use trueup_rules::drift::decide::may_keep_any;
use trueup_rules::fair_queue::backoff;
use trueup_rules::render::proof::ProofKey;

use crate::act::brake::Brake;
use crate::act::fence::Fence;
use crate::act::in_flight::{InFlightWindow, PassMemory};
use crate::act::refusal::Refusals;
use crate::act::restore_guard::RestoreGuard;
use crate::act::throttle::Throttle;
use crate::executor::pass::{PassInput, PassResult, Shared};
use crate::observe::follow::{CacheUpdate, Follower};
use crate::observe::notice::{Notes, Notices};
use crate::observe::resync::Resync;
use crate::observe::warnings::CachedWarnings;
use crate::verbs::Cluster;
use drift::{carry_over, forget_ended};
pub use dry_run::DryRunError;
use queue::Queue;
use report::{is_forbidden, is_new, panic_report};

/// How many passes run at once.
const WIDTH: usize = 32;
/// Retry backoff: doubled each time, up to the second value.
const RETRY_LEAST: Duration = Duration::from_millis(500);
const RETRY_MOST: Duration = Duration::from_secs(30);

/// What an executor is made of.
#[derive(Debug)]
pub struct Parts {
    /// The cluster it works on.
    pub cluster: Arc<dyn Cluster>,
    /// Makes and checks ownership proofs.
    pub proofs: ProofKey,
    /// Says whether writes may be sent.
    pub fence: Arc<Fence>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Who is named as observer in receipts.
    pub observer: String,
    /// How long an unacknowledged call may still take effect.
    pub in_flight: InFlightWindow,
}

/// A running executor. It ends when this handle is dropped.
#[derive(Debug)]
pub struct Executor {
    commands: mpsc::Sender<Command>,
    shared: Arc<Shared>,
    brake: Brake,
    freshness: watch::Receiver<Freshness>,
}

#[derive(Debug)]
enum Command {
    /// Converge this unit.
    Order(Box<Order>, Why, oneshot::Sender<Outcome>),
    /// Return whether a project's namespace and policies are ready.
    IsReady(ProjectId, oneshot::Sender<bool>),
}

/// Options of an order.
#[derive(Debug, Clone, Default)]
pub struct Why {
    /// Whether to read its objects from the cluster first, bypassing the cache.
    pub fresh: bool,
    /// Trace id of the request that caused it, for the log.
    pub trace: Option<String>,
}

impl Executor {
    /// Starts an executor in `tasks`; reports go to `reports`, object updates are dropped.
    pub fn start(parts: Parts, reports: mpsc::Sender<Report>, tasks: &mut JoinSet<()>) -> Self {
        Self::record_updates(parts, reports, &Notices::default(), tasks)
    }

    /// Like [`Self::start`]; updates of pods, volumes and nodes go to `notices`.
    pub fn record_updates(
        parts: Parts,
        reports: mpsc::Sender<Report>,
        notices: &Notices,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let (commands, orders) = mpsc::channel(256);
        let (freshness_in, freshness) = watch::channel(Freshness::default());
        let (updates_in, updates) = mpsc::channel(1024);
        let brake = Brake::default();
        let shared = Arc::new(Shared {
            in_flight: parts.in_flight.lasts,
            in_flight_until: parts.in_flight.over(parts.clock.monotonic()),
            cluster: parts.cluster,
            cache: Arc::new(Mutex::default()),
            proofs: parts.proofs,
            fence: parts.fence,
            brake: brake.clone(),
            clock: parts.clock,
            observer: parts.observer,
            restore_guard: RestoreGuard::default(),
            refusals: Refusals::default(),
            throttle: Arc::new(Throttle::new(WIDTH)),
            warnings: CachedWarnings::default(),
        });
        for kind in Kind::WATCHED.into_iter().chain(Kind::BESIDE) {
            let follower = Follower {
                kind,
                cluster: Arc::clone(&shared.cluster),
                cache: Arc::clone(&shared.cache),
                clock: Arc::clone(&shared.clock),
                throttle: Arc::clone(&shared.throttle),
                freshness: freshness_in.clone(),
                updates: updates_in.clone(),
                notes: Notes::new(notices.clone()),
            };
            tasks.spawn(follower.run());
        }
        let resync = Resync {
            cluster: Arc::clone(&shared.cluster),
            cache: Arc::clone(&shared.cache),
            clock: Arc::clone(&shared.clock),
            throttle: Arc::clone(&shared.throttle),
            updates: updates_in,
            observer: shared.observer.clone(),
        };
        tasks.spawn(resync.run());
        let work = Work {
            shared: Arc::clone(&shared),
            reports,
            notices: notices.clone(),
            slots: HashMap::new(),
            queue: Queue::default(),
            running: HashMap::new(),
        };
        tasks.spawn(work.run(orders, updates));
        Self { commands, shared, brake, freshness }
    }

    /// The brake that stops all writes of this executor.
    #[must_use]
    pub const fn brake(&self) -> &Brake {
        &self.brake
    }

    /// Accepts an order; the receiver gets the outcome of the first pass with it.
    pub async fn order(&self, order: Order) -> oneshot::Receiver<Outcome> {
        self.order_because(order, Why::default()).await
    }

    /// Like [`Self::order`], with options.
    pub async fn order_because(&self, order: Order, why: Why) -> oneshot::Receiver<Outcome> {
        let (passed, answer) = oneshot::channel();
        // A closed channel drops `passed`, and the receiver gets an error.
        let _closed = self.commands.send(Command::Order(Box::new(order), why, passed)).await;
        answer
    }

    /// When the last watch event of each kind arrived.
    #[must_use]
    pub fn freshness(&self) -> watch::Receiver<Freshness> {
        self.freshness.clone()
    }
}

/// State of one unit.
struct Slot {
    order: Order,
    /// The order that this one replaced, until the unit is converged. Kept only where values of
    /// other writers may be.
    former: Option<Arc<Order>>,
    /// Options of the order; `fresh` is cleared by the first pass.
    why: Why,
    running: bool,
    dirty: bool,
    /// The last report, so that nothing is reported twice.
    last: Option<Report>,
    waiters: Vec<oneshot::Sender<Outcome>>,
    tries: u32,
    memory: PassMemory,
}

impl Slot {
    /// Keeps the order that is about to be replaced. If the one before it was never converged, the
    /// objects may still be as that wanted them.
    fn keep_former(&mut self) {
        if self.former.is_none() {
            self.former = Some(Arc::new(self.order.clone()));
        }
    }
}

struct Work {
    shared: Arc<Shared>,
    reports: mpsc::Sender<Report>,
    notices: Notices,
    slots: HashMap<Unit, Slot>,
    queue: Queue,
    /// The unit of each running pass, to know which one panicked.
    running: HashMap<task::Id, Unit>,
}

impl Work {
    async fn run(mut self, mut orders: Receiver<Command>, mut updates: Receiver<CacheUpdate>) {
        let mut passes: JoinSet<PassResult> = JoinSet::new();
        let mut brake = self.shared.brake.changes();
        loop {
            self.start_passes(&mut passes);
            let clock = Arc::clone(&self.shared.clock);
            let due = self.next_due().map(|due| due.saturating_sub(clock.monotonic()));
            tokio::select! {
                command = orders.recv() => match command {
                    Some(Command::Order(order, why, passed)) => self.take(order, why, passed),
                    // The caller may have stopped waiting.
                    Some(Command::IsReady(of, answer)) => _ = answer.send(self.project_ready(of)),
                    None => return,
                },
                Some(update) = updates.recv() => self.handle_update(update),
                Ok(()) = brake.changed() => self.queue_every_unit(),
                Some(ended) = passes.join_next_with_id() => match ended {
                    Ok((id, ended)) => {
                        self.running.remove(&id);
                        self.finish_pass(ended).await;
                    }
                    Err(error) => self.pass_panicked(&error).await,
                },
                () = clock.sleep(due.unwrap_or(RETRY_MOST)), if due.is_some() => {
                    self.queue.release_due(clock.monotonic());
                }
            }
        }
    }

    fn take(&mut self, mut order: Box<Order>, why: Why, passed: oneshot::Sender<Outcome>) {
        let unit = order.unit;
        self.shared.cache().expect_pods(&order);
        match self.slots.get_mut(&unit) {
            Some(slot) => {
                // The uids seen since are newer than those in the database.
                for (key, uid) in &slot.order.recorded {
                    if uid.is_some() {
                        order.recorded.insert(key.clone(), uid.clone());
                    }
                }
                carry_over(&mut order.drift, &slot.order.drift, self.shared.clock.now());
                if slot.order.generation != order.generation {
                    // The first read was made for another generation.
                    slot.memory.first = None;
                    if may_keep_any(&order.drift) {
                        slot.keep_former();
                    }
                }
                slot.order = *order;
                slot.why = Why { fresh: slot.why.fresh || why.fresh, ..why };
                slot.waiters.push(passed);
                slot.tries = 0;
                slot.dirty = slot.running;
            }
            None => {
                let slot = Slot {
                    order: *order,
                    former: None,
                    why,
                    running: false,
                    dirty: false,
                    last: None,
                    waiters: vec![passed],
                    tries: 0,
                    memory: PassMemory::default(),
                };
                self.slots.insert(unit, slot);
            }
        }
        self.touch(unit);
        self.queue.mark_urgent(unit);
    }

    fn handle_update(&mut self, update: CacheUpdate) {
        let touched: Vec<Unit> = match update {
            CacheUpdate::Touched(units) => units.into_iter().collect(),
            CacheUpdate::Listed(kind, objects) => return self.sweep(kind, &objects),
            // Before every kind was listed a pass could only be deferred again.
            CacheUpdate::Relisted if !self.shared.cache().is_complete() => Vec::new(),
            CacheUpdate::Relisted => {
                self.shared.cache().read_all_again();
                return self.queue_every_unit();
            }
        };
        for unit in touched {
            self.touch(unit);
        }
    }

    /// Queues every unit and resets its backoff, after a watch gap or a change of the freeze.
    fn queue_every_unit(&mut self) {
        self.slots.values_mut().for_each(|slot| slot.tries = 0);
        let all: Vec<Unit> = self.slots.keys().copied().collect();
        for unit in all {
            self.touch(unit);
        }
    }

    /// Queues a unit for a pass, now or right after the one that runs.
    fn touch(&mut self, unit: Unit) {
        if let Some(slot) = self.slots.get_mut(&unit) {
            if slot.running {
                slot.dirty = true;
            } else {
                self.queue.push(unit);
            }
        }
    }

    fn start_passes(&mut self, passes: &mut JoinSet<PassResult>) {
        let throttle = Arc::clone(&self.shared.throttle);
        while passes.len() < throttle.width(self.shared.clock.monotonic()) {
            let Some(unit) = self.queue.pop(throttle.is_narrow()) else { return };
            let Some(slot) = self.slots.get_mut(&unit).filter(|slot| !slot.running) else {
                continue;
            };
            let (order, memory) = (slot.order.clone(), slot.memory.clone());
            let former = slot.former.clone();
            let fresh = mem::take(&mut slot.why.fresh);
            let trace = slot.why.trace.clone().unwrap_or_default();
            let span = tracing::info_span!("pass", %unit, generation = order.generation, trace);
            let project_ready = self.project_ready(order.project);
            let shared = Arc::clone(&self.shared);
            let input = PassInput { project_ready, fresh, former };
            let pass = async move { shared.pass(order, &input, memory).await };
            let pass = passes.spawn(pass.instrument(span));
            self.running.insert(pass.id(), unit);
            if let Some(slot) = self.slots.get_mut(&unit) {
                slot.running = true;
                slot.dirty = false;
            }
        }
    }

    /// When the next unit is due, or the rate limit ends.
    fn next_due(&self) -> Option<Duration> {
        let now = self.shared.clock.monotonic();
        let pause = self.shared.throttle.left(now).filter(|_| !self.queue.is_empty());
        [self.queue.next_due(), pause.map(|left| now + left)].into_iter().flatten().min()
    }

    fn project_ready(&self, project: ProjectId) -> bool {
        self.slots
            .get(&Unit::Project(project))
            .and_then(|slot| slot.last.as_ref())
            .is_some_and(|report| report.outcome == Outcome::Converged)
    }

    /// Handles the end of a pass: sends the report, answers the waiters, and requeues the unit.
    async fn finish_pass(&mut self, ended: PassResult) {
        let PassResult { order, report, memory, learned, requeue_at } = ended;
        let unit = report.unit;
        let Some(slot) = self.slots.get_mut(&unit) else {
            return;
        };
        slot.running = false;
        slot.memory = memory;
        let current = slot.order.generation == order.generation;
        if current {
            // Only the uids: the order may have been replaced meanwhile, for example by a freeze.
            slot.order.recorded.extend(order.recorded);
        }
        learned.merge_into(&mut slot.order.drift);
        let was_ready = slot.last.as_ref().is_some_and(|last| last.outcome == Outcome::Converged);
        let is_ready = report.outcome == Outcome::Converged;
        if current && is_ready {
            slot.former = None;
            if let Some(seen) = &report.observation {
                forget_ended(&mut slot.order.drift, &seen.divergences);
            }
        }
        let changed = slot.last.as_ref().is_none_or(|last| is_new(last, &report));
        let outcome = report.outcome.clone();
        let finished = report.receipt.is_some() && current;
        let forbidden = is_forbidden(&report);
        slot.last = Some(Report { changes: Vec::new(), ..report.clone() });
        if changed && self.reports.send(report).await.is_err() {
            return;
        }
        let Some(slot) = self.slots.get_mut(&unit) else {
            return;
        };
        if current {
            for waiter in slot.waiters.drain(..) {
                // The caller may have stopped waiting.
                let _closed = waiter.send(outcome.clone());
            }
        }
        if finished && slot.order.desired == DesiredState::Deleted {
            self.shared.retire(&slot.order);
            self.slots.remove(&unit);
            return;
        }
        self.requeue(unit, &outcome, requeue_at);
        if forbidden && outcome == Outcome::Converged {
            // No event reports when access is granted again.
            self.queue.push_later(unit, self.shared.clock.monotonic() + RETRY_MOST);
        }
        if let (Unit::Project(project), true) = (unit, was_ready != is_ready) {
            self.touch_services(project);
        }
    }

    /// Requeues a unit: at once if it changed during the pass, later if the pass did not converge.
    fn requeue(&mut self, unit: Unit, outcome: &Outcome, requeue_at: Option<Duration>) {
        let now = self.shared.clock.monotonic();
        let Some(slot) = self.slots.get_mut(&unit) else {
            return;
        };
        if slot.dirty || !slot.waiters.is_empty() {
            self.queue.push(unit);
            return;
        }
        match outcome {
            Outcome::Converged => {
                slot.tries = 0;
                self.shared.throttle.widen();
                if let Some(at) = requeue_at {
                    self.queue.push_later(unit, at);
                }
            }
            Outcome::Waiting { .. }
            | Outcome::Deferred { .. }
            | Outcome::Locked { .. }
            | Outcome::Frozen { .. }
            | Outcome::Broken { .. }
            | Outcome::Blocked { .. }
            | Outcome::Outdated { .. }
            | Outcome::Refused { .. }
            | Outcome::Failed { .. } => {
                let pause = backoff(RETRY_LEAST, RETRY_MOST, slot.tries, unit);
                slot.tries = slot.tries.saturating_add(1);
                self.queue.push_later(unit, requeue_at.unwrap_or_else(|| now + pause));
            }
        }
    }

    fn touch_services(&mut self, project: ProjectId) {
        let services: BTreeSet<Unit> = self
            .slots
            .iter()
            .filter(|(unit, slot)| {
                matches!(unit, Unit::Service(_)) && slot.order.project == project
            })
            .map(|(unit, _)| *unit)
            .collect();
        for unit in services {
            self.touch(unit);
        }
    }

    /// Handles a panic in a pass: answers the waiters, reports it, and requeues the unit.
    async fn pass_panicked(&mut self, error: &task::JoinError) {
        let unit = self.running.remove(&error.id());
        tracing::error!(unit = ?unit, %error, "a pass panicked; this is a bug in Trueup");
        let Some((unit, slot)) = unit.and_then(|unit| Some((unit, self.slots.get_mut(&unit)?)))
        else {
            return;
        };
        slot.running = false;
        slot.memory.note_unanswered(self.shared.clock.monotonic());
        let report = panic_report(&slot.order);
        for waiter in slot.waiters.drain(..) {
            // The caller may have stopped waiting.
            let _closed = waiter.send(report.outcome.clone());
        }
        let changed = slot.last.as_ref().is_none_or(|last| is_new(last, &report));
        slot.last = Some(report.clone());
        self.queue.push_later(unit, self.shared.clock.monotonic() + RETRY_MOST);
        if changed {
            // The channel closes only during shutdown.
            let _closed = self.reports.send(report).await;
        }
    }
}
