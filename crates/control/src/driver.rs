//! The driver: turns wakes into orders and ends a wake when its order's first pass has ended.
//!
//! From then on the executor holds the order and repairs by itself, so the wake has done its work
//! whatever the pass's outcome was. Only a pass that met a defect, or an order whose secrets are
//! locked, is woken again: the first a few times, the second for as long as it takes.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;
use trueup_cluster::{Executor, Why};
use trueup_model::order::{Body, Order, Unit};
use trueup_model::report::{Outcome, Report};
use trueup_model::wake::Claimed;
use trueup_model::{Clock, crash};
use trueup_rules::envelope::Opener;
use trueup_rules::secret;
use trueup_rules::turn::backoff;
use trueup_store::{Error, Lease, Signals, Worker};

use crate::metrics::Metrics;
use crate::within::within;

/// How many wakes are claimed at once, and how many of one cluster may be under way.
const BATCH: usize = 64;
const UNDER_WAY: usize = 256;
/// How often the lanes are counted.
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
    pub(crate) opener: Opener,
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
    /// Whether something may be claimed in the database that is not in here: an answer was lost.
    doubtful: bool,
}

impl UnderWay {
    fn push(&mut self, unit: Unit, pass: impl Future<Output = (Claimed, Passed)> + Send + 'static) {
        self.units.insert(unit);
        self.passes.push(Box::pin(pass));
    }
}

impl Driver {
    /// Drives until the lease is over.
    pub(crate) async fn run(self) {
        let mut under_way = UnderWay::default();
        let mut measured = Duration::ZERO;
        loop {
            if self.clock.monotonic() >= measured {
                self.measure().await;
                measured = self.clock.monotonic() + MEASURE;
            }
            let claimed = match self.claim(&mut under_way).await {
                Ok(claimed) => claimed,
                Err(Error::Fenced) => return,
                Err(error) => {
                    tracing::warn!(%error, "wakes cannot be claimed now");
                    under_way.doubtful = true;
                    false
                }
            };
            if claimed {
                continue;
            }
            tokio::select! {
                Some((wake, passed)) = under_way.passes.next() => {
                    under_way.units.remove(&wake.unit);
                    under_way.doubtful |= self.end(&wake, passed).await.is_err();
                }
                () = self.signals.woken() => {}
                () = self.clock.sleep(POLL) => {}
            }
        }
    }

    /// Claims a batch and hands its orders over; answers whether there was any.
    async fn claim(&self, under_way: &mut UnderWay) -> Result<bool, Error> {
        if under_way.doubtful {
            let lost = within(&*self.clock, self.worker.requeue_lost(self.lease, &under_way.units));
            match lost.await? {
                0 => {}
                lost => tracing::info!(lost, "wakes that nobody worked on are queued again"),
            }
            under_way.doubtful = false;
        }
        let free = UNDER_WAY.saturating_sub(under_way.units.len()).min(BATCH);
        if free == 0 {
            return Ok(false);
        }
        let limit = i64::try_from(free).unwrap_or(0);
        let claimed = self.worker.claim_orders(self.lease, limit, self.clock.now());
        let orders = within(&*self.clock, claimed).await?;
        if orders.is_empty() {
            return Ok(false);
        }
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
        Ok(true)
    }

    /// Secrets join an order here, outside of the database: all of them, or there is no order.
    fn with_secrets(&self, mut order: Order) -> Result<Order, Box<Report>> {
        let (Unit::Service(service), Body::Service(body)) = (order.unit, &mut order.body) else {
            return Ok(order);
        };
        let generated = &body.spec.generated_secrets;
        body.secrets = secret::generated(&self.master_key, service, generated);
        for (name, sealed) in mem::take(&mut body.sealed) {
            match self.opener.open(&sealed) {
                Ok(value) => {
                    body.secrets.insert(name, value);
                }
                Err(error) => {
                    tracing::warn!(unit = %order.unit, secret = %name, %error, "a secret is locked");
                    return Err(Box::new(Report {
                        unit: order.unit,
                        org: order.org,
                        generation: order.generation,
                        observation: None,
                        outcome: Outcome::Locked { why: format!("the secret `{name}`: {error}") },
                        changes: Vec::new(),
                        receipt: None,
                    }));
                }
            }
        }
        Ok(order)
    }

    async fn end(&self, wake: &Claimed, passed: Passed) -> Result<(), Error> {
        crash::point("driver.passed").await;
        let ended = within(&*self.clock, self.end_as(wake, passed)).await;
        if let Err(error) = &ended {
            // It stays claimed until it is found to be nobody's, by this holder or the next.
            tracing::warn!(unit = %wake.unit, %error, "a wake could not be ended");
        }
        crash::point("driver.finished").await;
        ended
    }

    async fn end_as(&self, wake: &Claimed, passed: Passed) -> Result<(), Error> {
        let now = self.clock.now();
        match passed {
            Passed::Ended(outcome) if wake.fresh => {
                let told = self.worker.finish_check(wake, &outcome, now).await;
                self.signals.event();
                told
            }
            Passed::Ended(_) => self.worker.finish_wake(wake, now).await,
            Passed::Locked => {
                let tries = u32::try_from(wake.attempts).unwrap_or(0);
                let after = backoff(RETRY_LEAST, RETRY_MOST, tries, wake.unit);
                self.worker.retry_wake(wake, after, "its secrets are locked", now).await
            }
            Passed::Broken(why) => self.worker.poison_wake(wake, &why, now).await.map(|dead| {
                if dead {
                    tracing::error!(unit = %wake.unit, "a wake is dead: it met a defect too often; look \
                        for its panic in this log, and requeue it with `trueup wakes requeue` once mended");
                }
            }),
            Passed::Lost => Ok(()),
        }
    }

    async fn measure(&self) {
        match self.worker.lane_loads(self.lease.cluster).await {
            Ok(loads) => self.metrics.wakes(&loads, self.clock.now()),
            Err(error) => tracing::debug!(%error, "wakes cannot be counted now"),
        }
        self.metrics.watches(&self.executor.freshness().borrow(), self.clock.now());
    }
}
