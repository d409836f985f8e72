//! The executor of one cluster: holds its orders, follows the cluster, and repairs without asking.
//!
//! Orders come in, reports go out. It re-plans a unit when its order changes, when a watch says that
//! the unit looks different, and when a try that did not end well is due again.

mod dry_run;
mod news;
pub(crate) mod pass;
mod queue;
mod sweep;

use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{self, JoinSet};
use tracing::Instrument;
use trueup_model::cluster::Freshness;
use trueup_model::key::Kind;
use trueup_model::order::{Order, Unit};
use trueup_model::report::{Outcome, Report};
use trueup_model::service::DesiredState;
use trueup_model::{Clock, ProjectId};
use trueup_rules::fair_queue::backoff;
use trueup_rules::render::proof::ProofKey;

use crate::act::brake::Brake;
use crate::act::fence::Fence;
use crate::act::in_flight::{Echoes, InFlightWindow};
use crate::act::refusal::Refusals;
use crate::act::restore_guard::RestoreGuard;
use crate::act::throttle::Throttle;
use crate::executor::pass::{Ended, Given, Shared};
use crate::observe::follow::{Follower, News};
use crate::observe::notice::{Notes, Notices};
use crate::observe::resync::Resync;
use crate::observe::warnings::CachedWarnings;
use crate::verbs::Cluster;
pub use dry_run::DryRunError;
use news::{broken, is_news, is_refused};
use queue::Queue;

/// How many units are worked on side by side.
const WIDTH: usize = 32;
/// Until a try that did not end well is made again: doubled each time, up to the second value.
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
    /// How long calls may take effect after nobody waits for them any more.
    pub echo: InFlightWindow,
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
    /// Make this true.
    Order(Box<Order>, Why, oneshot::Sender<Outcome>),
    /// Say whether everything of a project is there.
    IsReady(ProjectId, oneshot::Sender<bool>),
}

/// Why an order is handed over.
#[derive(Debug, Clone, Default)]
pub struct Why {
    /// Whether its objects are to be read afresh, whatever was heard of them.
    pub fresh: bool,
    /// The trace of the request that it comes from, for the log.
    pub trace: Option<String>,
}

impl Executor {
    /// Starts one into `tasks`; reports go to `reports`, and nobody takes notes.
    pub fn start(parts: Parts, reports: mpsc::Sender<Report>, tasks: &mut JoinSet<()>) -> Self {
        Self::start_noting(parts, reports, &Notices::default(), tasks)
    }

    /// The same, and what is noticed of pods, disks and nodes goes to `notices`.
    pub fn start_noting(
        parts: Parts,
        reports: mpsc::Sender<Report>,
        notices: &Notices,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let (commands, orders) = mpsc::channel(256);
        let (freshness_in, freshness) = watch::channel(Freshness::default());
        let (news_in, news) = mpsc::channel(1024);
        let brake = Brake::default();
        let shared = Arc::new(Shared {
            echo: parts.echo.lasts,
            echo_over: parts.echo.over(parts.clock.monotonic()),
            cluster: parts.cluster,
            cache: Arc::new(Mutex::default()),
            proofs: parts.proofs,
            fence: parts.fence,
            brake: brake.clone(),
            clock: parts.clock,
            observer: parts.observer,
            doubt: RestoreGuard::default(),
            refusals: Refusals::default(),
            throttle: Arc::new(Throttle::new(WIDTH)),
            told: CachedWarnings::default(),
        });
        for kind in Kind::WATCHED.into_iter().chain(Kind::BESIDE) {
            let follower = Follower {
                kind,
                cluster: Arc::clone(&shared.cluster),
                cache: Arc::clone(&shared.cache),
                clock: Arc::clone(&shared.clock),
                throttle: Arc::clone(&shared.throttle),
                freshness: freshness_in.clone(),
                news: news_in.clone(),
                notes: Notes::new(notices.clone()),
            };
            tasks.spawn(follower.run());
        }
        let resync = Resync {
            cluster: Arc::clone(&shared.cluster),
            cache: Arc::clone(&shared.cache),
            clock: Arc::clone(&shared.clock),
            throttle: Arc::clone(&shared.throttle),
            news: news_in,
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
        tasks.spawn(work.run(orders, news));
        Self { commands, shared, brake, freshness }
    }

    /// Stops every act while it is on.
    #[must_use]
    pub const fn brake(&self) -> &Brake {
        &self.brake
    }

    /// Hands over an order; the answer comes when the first pass with it has ended.
    pub async fn order(&self, order: Order) -> oneshot::Receiver<Outcome> {
        self.order_because(order, Why::default()).await
    }

    /// The same, with the reason.
    pub async fn order_because(&self, order: Order, why: Why) -> oneshot::Receiver<Outcome> {
        let (passed, answer) = oneshot::channel();
        // A closed channel drops `passed`, which the receiver sees: nothing is lost silently.
        let _gone = self.commands.send(Command::Order(Box::new(order), why, passed)).await;
        answer
    }

    /// When each kind was last heard of.
    #[must_use]
    pub fn freshness(&self) -> watch::Receiver<Freshness> {
        self.freshness.clone()
    }
}

/// What is held about one unit.
struct Slot {
    order: Order,
    /// Why it was handed over: what is to be read afresh is so once.
    why: Why,
    running: bool,
    again: bool,
    /// The last thing that was reported, to say nothing twice.
    last: Option<Report>,
    waiters: Vec<oneshot::Sender<Outcome>>,
    tries: u32,
    echoes: Echoes,
}

struct Work {
    shared: Arc<Shared>,
    reports: mpsc::Sender<Report>,
    notices: Notices,
    slots: HashMap<Unit, Slot>,
    queue: Queue,
    /// Which unit each pass works on, to know whose pass panicked.
    running: HashMap<task::Id, Unit>,
}

impl Work {
    async fn run(mut self, mut orders: mpsc::Receiver<Command>, mut news: mpsc::Receiver<News>) {
        let mut passes: JoinSet<Ended> = JoinSet::new();
        let mut brake = self.shared.brake.changes();
        loop {
            self.start_passes(&mut passes);
            let clock = Arc::clone(&self.shared.clock);
            let due = self.next_due().map(|due| due.saturating_sub(clock.monotonic()));
            tokio::select! {
                command = orders.recv() => match command {
                    Some(Command::Order(order, why, passed)) => self.take(order, why, passed),
                    // Whoever asked may have stopped waiting.
                    Some(Command::IsReady(of, answer)) => _ = answer.send(self.project_ready(of)),
                    None => return,
                },
                Some(news) = news.recv() => self.hear(news),
                Ok(()) = brake.changed() => self.queue_every_unit(),
                Some(ended) = passes.join_next_with_id() => match ended {
                    Ok((id, ended)) => {
                        self.running.remove(&id);
                        self.settle(ended).await;
                    }
                    Err(error) => self.lost(&error).await,
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
                // What was seen since is newer than what the database knew.
                for (key, uid) in &slot.order.recorded {
                    if uid.is_some() {
                        order.recorded.insert(key.clone(), uid.clone());
                    }
                }
                if slot.order.generation != order.generation {
                    // What was read was read for another promise.
                    slot.echoes.first = None;
                }
                slot.order = *order;
                slot.why = Why { fresh: slot.why.fresh || why.fresh, ..why };
                slot.waiters.push(passed);
                slot.tries = 0;
                slot.again = slot.running;
            }
            None => {
                let slot = Slot {
                    order: *order,
                    why,
                    running: false,
                    again: false,
                    last: None,
                    waiters: vec![passed],
                    tries: 0,
                    echoes: Echoes::default(),
                };
                self.slots.insert(unit, slot);
            }
        }
        self.touch(unit);
        self.queue.hurry(unit);
    }

    fn hear(&mut self, news: News) {
        let touched: Vec<Unit> = match news {
            News::Touched(units) => units.into_iter().collect(),
            News::Listed(kind, objects) => return self.sweep(kind, &objects),
            // Before every kind was listed a pass could only be deferred again.
            News::Returned if !self.shared.cache().is_complete() => Vec::new(),
            News::Returned => {
                self.shared.cache().read_all_again();
                return self.queue_every_unit();
            }
        };
        for unit in touched {
            self.touch(unit);
        }
    }

    /// The cluster returned, or was frozen or let go: what failed before has earned no longer pause.
    fn queue_every_unit(&mut self) {
        self.slots.values_mut().for_each(|slot| slot.tries = 0);
        let all: Vec<Unit> = self.slots.keys().copied().collect();
        for unit in all {
            self.touch(unit);
        }
    }

    /// Marks a unit for another pass, now or right after the one that runs.
    fn touch(&mut self, unit: Unit) {
        if let Some(slot) = self.slots.get_mut(&unit) {
            if slot.running {
                slot.again = true;
            } else {
                self.queue.push(unit);
            }
        }
    }

    fn start_passes(&mut self, passes: &mut JoinSet<Ended>) {
        let throttle = Arc::clone(&self.shared.throttle);
        while passes.len() < throttle.width(self.shared.clock.monotonic()) {
            let Some(unit) = self.queue.pop(throttle.is_narrow()) else { return };
            let Some(slot) = self.slots.get_mut(&unit).filter(|slot| !slot.running) else {
                continue;
            };
            let (order, echoes) = (slot.order.clone(), slot.echoes.clone());
            let fresh = mem::take(&mut slot.why.fresh);
            let trace = slot.why.trace.clone().unwrap_or_default();
            let span = tracing::info_span!("pass", %unit, generation = order.generation, trace);
            let project_ready = self.project_ready(order.project);
            let shared = Arc::clone(&self.shared);
            let given = Given { project_ready, fresh };
            let pass = async move { shared.pass(order, given, echoes).await };
            let pass = passes.spawn(pass.instrument(span));
            self.running.insert(pass.id(), unit);
            if let Some(slot) = self.slots.get_mut(&unit) {
                slot.running = true;
                slot.again = false;
            }
        }
    }

    /// When something is to be done again: what is due first, or the end of a pause.
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

    /// A pass has ended: report what is new, answer who waits, and see what comes next.
    async fn settle(&mut self, ended: Ended) {
        let Ended { order, report, echoes, again_at } = ended;
        let unit = report.unit;
        let Some(slot) = self.slots.get_mut(&unit) else {
            return;
        };
        slot.running = false;
        slot.echoes = echoes;
        let current = slot.order.generation == order.generation;
        if current {
            // Only what the pass learned: its order may have been replaced meanwhile, by a freeze, say.
            slot.order.recorded.extend(order.recorded);
        }
        let was_ready = slot.last.as_ref().is_some_and(|last| last.outcome == Outcome::Converged);
        let is_ready = report.outcome == Outcome::Converged;
        let news = slot.last.as_ref().is_none_or(|last| is_news(last, &report));
        let outcome = report.outcome.clone();
        let finished = report.receipt.is_some() && current;
        let refused = is_refused(&report);
        slot.last = Some(Report { changes: Vec::new(), ..report.clone() });
        if news && self.reports.send(report).await.is_err() {
            return;
        }
        let Some(slot) = self.slots.get_mut(&unit) else {
            return;
        };
        if current {
            for waiter in slot.waiters.drain(..) {
                // Whoever asked may have stopped waiting.
                let _unheard = waiter.send(outcome.clone());
            }
        }
        if finished && slot.order.desired == DesiredState::Deleted {
            self.shared.retire(&slot.order);
            self.slots.remove(&unit);
            return;
        }
        self.follow_up(unit, &outcome, again_at);
        if refused && outcome == Outcome::Converged {
            // Nothing will tell when we are let near it again.
            self.queue.push_later(unit, self.shared.clock.monotonic() + RETRY_MOST);
        }
        if let (Unit::Project(project), true) = (unit, was_ready != is_ready) {
            self.touch_services(project);
        }
    }

    /// Another pass at once if something happened meanwhile, or later if this one did not end well.
    fn follow_up(&mut self, unit: Unit, outcome: &Outcome, again_at: Option<Duration>) {
        let now = self.shared.clock.monotonic();
        let Some(slot) = self.slots.get_mut(&unit) else {
            return;
        };
        if slot.again || !slot.waiters.is_empty() {
            self.queue.push(unit);
            return;
        }
        match outcome {
            Outcome::Converged => {
                slot.tries = 0;
                self.shared.throttle.widen();
                if let Some(at) = again_at {
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
                self.queue.push_later(unit, again_at.unwrap_or_else(|| now + pause));
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

    /// A pass panicked: a defect. Others go on; whoever waits for this one is told, and people see it.
    async fn lost(&mut self, error: &task::JoinError) {
        let unit = self.running.remove(&error.id());
        tracing::error!(unit = ?unit, %error, "a pass ended by a panic; this is a defect in Trueup");
        let Some((unit, slot)) = unit.and_then(|unit| Some((unit, self.slots.get_mut(&unit)?)))
        else {
            return;
        };
        slot.running = false;
        slot.echoes.leave(self.shared.clock.monotonic());
        let report = broken(&slot.order);
        for waiter in slot.waiters.drain(..) {
            // Whoever asked may have stopped waiting.
            let _unheard = waiter.send(report.outcome.clone());
        }
        let news = slot.last.as_ref().is_none_or(|last| is_news(last, &report));
        slot.last = Some(report.clone());
        self.queue.push_later(unit, self.shared.clock.monotonic() + RETRY_MOST);
        if news {
            // Nobody listens any more only when everything ends.
            let _ended = self.reports.send(report).await;
        }
    }
}
