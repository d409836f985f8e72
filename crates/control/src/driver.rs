//! The driver: turns wakes into orders and finishes a wake when its order's first pass has ended.
//!
//! From then on the executor has the order and repairs drift by itself, so the wake is finished
//! whatever the outcome of the pass. Only two cases are retried: a pass that met a defect, a
//! limited number of times, and an order whose secrets cannot be decrypted, without limit.

use std::collections::BTreeSet;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::sync::mpsc;
use trueup_cluster::{Executor, Why};
use trueup_model::order::{Order, Unit};
use trueup_model::report::{Outcome, Report};
use trueup_model::secret::MasterKey;
use trueup_model::wake::Claimed;
use trueup_model::{Clock, crash};
use trueup_rules::envelope::Decryptor;
use trueup_rules::fair_queue::backoff;
use trueup_store::{Error, Lease, Signals, Worker};

use crate::deadline::within;
use crate::decrypt::with_secrets;
use crate::given_orders::GivenOrders;
use crate::metrics::{ByCause, Metrics};
use crate::service_meter::ServiceMeter;

/// How many wakes are claimed at once, and how many of one cluster may be in flight.
const BATCH: usize = 64;
const IN_FLIGHT: usize = 256;
/// The minimum time between two claims, so that one transaction claims many wakes.
const GATHER: Duration = Duration::from_millis(10);
/// How often the ages of the watches are measured.
const MEASURE: Duration = Duration::from_secs(5);
/// The fallback for a lost signal.
const POLL: Duration = Duration::from_secs(1);
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);

pub(crate) struct Driver {
    pub(crate) worker: Worker,
    pub(crate) signals: Signals,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
    pub(crate) lease: Lease,
    pub(crate) executor: Arc<Executor>,
    /// What the executor was given, for the order check.
    pub(crate) given: GivenOrders,
    pub(crate) meter: ServiceMeter,
    pub(crate) master_key: MasterKey,
    pub(crate) decryptor: Decryptor,
    /// For orders that never reach the executor.
    pub(crate) reports: mpsc::Sender<Report>,
}

/// The result of the first pass of a wake's order.
enum PassResult {
    /// The pass has ended, with any outcome.
    Ended(Outcome),
    /// There was no pass: a secret cannot be decrypted.
    Locked,
    /// A defect ended the pass.
    Broken(String),
    /// The executor is gone. The wake stays claimed, and the next lease holder requeues it.
    Lost,
}

/// The wakes this driver has claimed and not finished.
#[derive(Default)]
struct InFlight {
    passes: FuturesUnordered<BoxFuture<'static, (Claimed, PassResult)>>,
    units: BTreeSet<Unit>,
    /// Whether more wakes may be due.
    more: bool,
    /// Whether wakes may be claimed in the database that are not in here: a commit was not
    /// acknowledged.
    unacknowledged: bool,
}

impl InFlight {
    fn push(
        &mut self,
        unit: Unit,
        pass: impl Future<Output = (Claimed, PassResult)> + Send + 'static,
    ) {
        self.units.insert(unit);
        self.passes.push(Box::pin(pass));
    }

    /// Whether there is room for a whole batch.
    fn has_room(&self) -> bool {
        self.units.len() + BATCH <= IN_FLIGHT
    }

    /// This pass, and all others that have ended by now.
    fn ended_with(&mut self, first: (Claimed, PassResult)) -> Vec<(Claimed, PassResult)> {
        let others = iter::from_fn(|| self.passes.next().now_or_never().flatten());
        let ended: Vec<_> = iter::once(first).chain(others).collect();
        for (wake, _) in &ended {
            self.units.remove(&wake.unit);
        }
        ended
    }
}

impl Driver {
    /// Runs until the lease is lost.
    pub(crate) async fn run(self) {
        let mut in_flight = InFlight { more: true, ..InFlight::default() };
        let (mut measured, mut claimed) = (Duration::ZERO, Duration::ZERO);
        loop {
            let now = self.clock.monotonic();
            if now >= measured {
                self.measure();
                measured = now + MEASURE;
            }
            let wants = in_flight.more && in_flight.has_room();
            if wants && now >= claimed {
                match self.claim(&mut in_flight).await {
                    Ok(more) => in_flight.more = more,
                    Err(Error::Fenced) => return,
                    Err(error) => {
                        tracing::warn!(%error, "cannot claim wakes; will retry");
                        in_flight.more = false;
                        in_flight.unacknowledged = true;
                    }
                }
                claimed = self.clock.monotonic() + GATHER;
                continue;
            }
            let pause = if wants { claimed.saturating_sub(now) } else { POLL };
            tokio::select! {
                Some(first) = in_flight.passes.next() => {
                    let ended = in_flight.ended_with(first);
                    match self.end(ended).await {
                        Ok(again) => in_flight.more |= again > 0,
                        Err(_) => in_flight.unacknowledged = true,
                    }
                }
                () = self.signals.woken(), if !in_flight.more => in_flight.more = true,
                () = self.clock.sleep(pause) => in_flight.more = true,
            }
        }
    }

    /// Claims a batch and hands its orders to the executor; returns whether more may be due.
    async fn claim(&self, in_flight: &mut InFlight) -> Result<bool, Error> {
        if in_flight.unacknowledged {
            let lost = within(&*self.clock, self.worker.requeue_lost(self.lease, &in_flight.units));
            match lost.await? {
                0 => {}
                lost => tracing::info!(lost, "requeued stale claims"),
            }
            in_flight.unacknowledged = false;
        }
        let limit = i64::try_from(BATCH).unwrap_or(0);
        let claimed = self.worker.claim_orders(self.lease, limit, self.clock.now());
        let orders = within(&*self.clock, claimed).await?;
        if orders.is_empty() {
            return Ok(false);
        }
        let more = orders.len() == BATCH;
        crash::point("driver.claimed").await;
        for (wake, order) in orders {
            tracing::debug!(unit = %order.unit, generation = order.generation, "ordered");
            let began = self.clock.monotonic();
            let order = match self.with_secrets(order) {
                Ok(order) => order,
                Err(locked) => {
                    // The executor keeps its previous order: what runs keeps running.
                    let _ended = self.reports.send(*locked).await;
                    in_flight.push(wake.unit, async move { (wake, PassResult::Locked) });
                    continue;
                }
            };
            let why = Why { fresh: wake.fresh, trace: wake.trace.clone() };
            self.given.note(&order);
            self.meter.ordered(&wake, &order);
            let passed = self.executor.order_because(order, why).await;
            crash::point("driver.ordered").await;
            let (clock, metrics) = (Arc::clone(&self.clock), self.metrics.clone());
            let cause = if wake.lane.is_asked() { "user" } else { "repair" };
            in_flight.push(wake.unit, async move {
                let passed = match passed.await {
                    Ok(Outcome::Broken { why }) => PassResult::Broken(why),
                    Ok(outcome) => PassResult::Ended(outcome),
                    Err(_) => PassResult::Lost,
                };
                let took = clock.monotonic().saturating_sub(began);
                let by = ByCause { cause };
                metrics.reconcile_seconds.get_or_create(&by).observe(took.as_secs_f64());
                (wake, passed)
            });
        }
        Ok(more)
    }

    /// Adds the decrypted secrets to an order: all of them, or the order is not given.
    fn with_secrets(&self, order: Order) -> Result<Order, Box<Report>> {
        let (unit, org, generation) = (order.unit, order.org, order.generation);
        with_secrets(order, &self.master_key, &self.decryptor).map_err(|why| {
            tracing::warn!(%unit, why, "cannot decrypt a secret; retrying with backoff");
            Box::new(Report {
                unit,
                org,
                generation,
                observation: None,
                outcome: Outcome::Locked { why },
                changes: Vec::new(),
                receipt: None,
                survey: None,
            })
        })
    }

    /// Finishes wakes whose passes have ended, most of them in one transaction; returns how many
    /// are due again.
    async fn end(&self, ended: Vec<(Claimed, PassResult)>) -> Result<u64, Error> {
        crash::point("driver.passed").await;
        let (plain, special): (Vec<_>, Vec<_>) = ended
            .into_iter()
            .partition(|(wake, passed)| matches!(passed, PassResult::Ended(_)) && !wake.fresh);
        let plain: Vec<Claimed> = plain.into_iter().map(|(wake, _)| wake).collect();
        let mut result = Ok(0);
        if !plain.is_empty() {
            let finished = self.worker.finish_wakes(&plain, self.clock.now());
            result = within(&*self.clock, finished).await;
        }
        for (wake, passed) in special {
            let ended = within(&*self.clock, self.end_as(&wake, passed)).await;
            result = result.and_then(|sum| Ok(sum + ended?));
        }
        if let Err(error) = &result {
            // They stay claimed until this holder or the next one requeues them.
            tracing::warn!(%error, "cannot finish wakes; they stay claimed until requeued");
        }
        crash::point("driver.finished").await;
        result
    }

    /// Finishes one wake that reports its outcome, had no pass, or met a defect.
    async fn end_as(&self, wake: &Claimed, passed: PassResult) -> Result<u64, Error> {
        let now = self.clock.now();
        match passed {
            PassResult::Ended(outcome) => {
                let finished = self.worker.finish_check(wake, &outcome, now).await;
                self.signals.event();
                finished
            }
            PassResult::Locked => {
                let tries = u32::try_from(wake.attempts).unwrap_or(0);
                let after = backoff(RETRY_MIN, RETRY_MAX, tries, wake.unit);
                let retried =
                    self.worker.retry_wake(wake, after, "cannot decrypt its secrets", now);
                retried.await.map(|()| 0)
            }
            PassResult::Broken(why) => self.worker.poison_wake(wake, &why, now).await.map(|dead| {
                if dead {
                    tracing::error!(
                        unit = %wake.unit,
                        "wake is dead: its passes panicked too often; find the panic in this log, \
                         fix the cause, then requeue the wake with `trueup wakes requeue`"
                    );
                }
                0
            }),
            PassResult::Lost => Ok(0),
        }
    }

    fn measure(&self) {
        self.meter.measure(self.clock.monotonic());
        self.metrics.watches(&self.executor.freshness().borrow(), self.clock.now());
    }
}
