//! The driver: turns wakes into orders and ends a wake when its order's first pass has ended.
//!
//! From then on the executor holds the order and repairs by itself, so the wake has done its work
//! whatever the pass's outcome was. Only a pass that met a defect, or an order whose secrets are
//! locked, is woken again: the first a few times, the second for as long as it takes.

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
use trueup_model::wake::Claimed;
use trueup_model::{Clock, crash};
use trueup_rules::envelope::Decryptor;
use trueup_rules::fair_queue::backoff;
use trueup_store::{Error, Lease, Signals, Worker};

use crate::deadline::within;
use crate::decrypt::with_secrets;
use crate::metrics::Metrics;

/// How many wakes are claimed at once, and how many of one cluster may be under way.
const BATCH: usize = 64;
const UNDER_WAY: usize = 256;
/// While wakes keep coming they are claimed this often at most: many in one transaction.
const GATHER: Duration = Duration::from_millis(10);
/// How often the watches' ages are told.
const MEASURE: Duration = Duration::from_secs(5);
/// The safety net for a signal that got lost.
const POLL: Duration = Duration::from_secs(1);
const RETRY_LEAST: Duration = Duration::from_secs(1);
const RETRY_MOST: Duration = Duration::from_secs(30);

pub(crate) struct Driver {
    pub(crate) worker: Worker,
    pub(crate) signals: Signals,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
    pub(crate) lease: Lease,
    pub(crate) executor: Arc<Executor>,
    pub(crate) master_key: [u8; 32],
    pub(crate) opener: Decryptor,
    /// For what never reaches the executor.
    pub(crate) reports: mpsc::Sender<Report>,
}

/// What became of a wake's order.
enum Passed {
    /// Its first pass has ended, however.
    Ended(Outcome),
    /// It never began: a secret is locked.
    Locked,
    /// A defect ended it.
    Broken(String),
    /// The executor is gone. The wake stays claimed, and the next holder of the lease takes it.
    Lost,
}

/// What this driver has claimed and not ended.
#[derive(Default)]
struct UnderWay {
    passes: FuturesUnordered<BoxFuture<'static, (Claimed, Passed)>>,
    units: BTreeSet<Unit>,
    /// Whether more may be waiting than was claimed last.
    more: bool,
    /// Whether something may be claimed in the database that is not in here: an answer was lost.
    doubtful: bool,
}

impl UnderWay {
    fn push(&mut self, unit: Unit, pass: impl Future<Output = (Claimed, Passed)> + Send + 'static) {
        self.units.insert(unit);
        self.passes.push(Box::pin(pass));
    }

    /// Whether there is room for enough to be worth a transaction.
    fn has_room(&self) -> bool {
        self.units.len() + BATCH <= UNDER_WAY
    }

    /// This one, and all others that have ended by now.
    fn ended_with(&mut self, first: (Claimed, Passed)) -> Vec<(Claimed, Passed)> {
        let others = iter::from_fn(|| self.passes.next().now_or_never().flatten());
        let ended: Vec<_> = iter::once(first).chain(others).collect();
        for (wake, _) in &ended {
            self.units.remove(&wake.unit);
        }
        ended
    }
}

impl Driver {
    /// Drives until the lease is over.
    pub(crate) async fn run(self) {
        let mut under_way = UnderWay { more: true, ..UnderWay::default() };
        let (mut measured, mut claimed) = (Duration::ZERO, Duration::ZERO);
        loop {
            let now = self.clock.monotonic();
            if now >= measured {
                self.measure();
                measured = now + MEASURE;
            }
            let wants = under_way.more && under_way.has_room();
            if wants && now >= claimed {
                match self.claim(&mut under_way).await {
                    Ok(more) => under_way.more = more,
                    Err(Error::Fenced) => return,
                    Err(error) => {
                        tracing::warn!(%error, "wakes cannot be claimed now");
                        under_way.more = false;
                        under_way.doubtful = true;
                    }
                }
                claimed = self.clock.monotonic() + GATHER;
                continue;
            }
            let pause = if wants { claimed.saturating_sub(now) } else { POLL };
            tokio::select! {
                Some(first) = under_way.passes.next() => {
                    let ended = under_way.ended_with(first);
                    match self.end(ended).await {
                        Ok(again) => under_way.more |= again > 0,
                        Err(_) => under_way.doubtful = true,
                    }
                }
                () = self.signals.woken(), if !under_way.more => under_way.more = true,
                () = self.clock.sleep(pause) => under_way.more = true,
            }
        }
    }

    /// Claims a batch and hands its orders over; answers whether there may be more.
    async fn claim(&self, under_way: &mut UnderWay) -> Result<bool, Error> {
        if under_way.doubtful {
            let lost = within(&*self.clock, self.worker.requeue_lost(self.lease, &under_way.units));
            match lost.await? {
                0 => {}
                lost => tracing::info!(lost, "wakes that nobody worked on are queued again"),
            }
            under_way.doubtful = false;
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
                    // The executor keeps the order it has: what runs goes on running.
                    let _ended = self.reports.send(*locked).await;
                    under_way.push(wake.unit, async move { (wake, Passed::Locked) });
                    continue;
                }
            };
            let why = Why { fresh: wake.fresh, trace: wake.trace.clone() };
            let passed = self.executor.order_because(order, why).await;
            crash::point("driver.ordered").await;
            let (clock, metrics) = (Arc::clone(&self.clock), self.metrics.clone());
            under_way.push(wake.unit, async move {
                let passed = match passed.await {
                    Ok(Outcome::Broken { why }) => Passed::Broken(why),
                    Ok(outcome) => Passed::Ended(outcome),
                    Err(_) => Passed::Lost,
                };
                let took = clock.monotonic().saturating_sub(began);
                metrics.reconcile_seconds.observe(took.as_secs_f64());
                (wake, passed)
            });
        }
        Ok(more)
    }

    /// Secrets join an order here, outside of the database: all of them, or there is no order.
    fn with_secrets(&self, order: Order) -> Result<Order, Box<Report>> {
        let (unit, org, generation) = (order.unit, order.org, order.generation);
        with_secrets(order, &self.master_key, &self.opener).map_err(|why| {
            tracing::warn!(%unit, why, "a secret is locked");
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

    /// Ends wakes whose passes have ended, those that ended as they should in one transaction; answers
    /// how many are due again.
    async fn end(&self, ended: Vec<(Claimed, Passed)>) -> Result<u64, Error> {
        crash::point("driver.passed").await;
        let (plain, special): (Vec<_>, Vec<_>) = ended
            .into_iter()
            .partition(|(wake, passed)| matches!(passed, Passed::Ended(_)) && !wake.fresh);
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
            // They stay claimed until they are found to be nobody's, by this holder or the next.
            tracing::warn!(%error, "wakes could not be ended");
        }
        crash::point("driver.finished").await;
        result
    }

    /// Ends one that says something, did not begin, or met a defect.
    async fn end_as(&self, wake: &Claimed, passed: Passed) -> Result<u64, Error> {
        let now = self.clock.now();
        match passed {
            Passed::Ended(outcome) => {
                let told = self.worker.finish_check(wake, &outcome, now).await;
                self.signals.event();
                told
            }
            Passed::Locked => {
                let tries = u32::try_from(wake.attempts).unwrap_or(0);
                let after = backoff(RETRY_LEAST, RETRY_MOST, tries, wake.unit);
                let retried = self.worker.retry_wake(wake, after, "its secrets are locked", now);
                retried.await.map(|()| 0)
            }
            Passed::Broken(why) => self.worker.poison_wake(wake, &why, now).await.map(|dead| {
                if dead {
                    tracing::error!(unit = %wake.unit, "a wake is dead: it met a defect too often; look \
                        for its panic in this log, and requeue it with `trueup wakes requeue` once mended");
                }
                0
            }),
            Passed::Lost => Ok(0),
        }
    }

    fn measure(&self) {
        self.metrics.watches(&self.executor.freshness().borrow(), self.clock.now());
    }
}
