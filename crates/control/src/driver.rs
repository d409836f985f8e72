//! The driver: turns wakes into orders and ends a wake when its order's first pass has ended.
//!
//! From then on the executor holds the order and repairs by itself, so the wake has done its work
//! whatever the pass's outcome was. Only a pass that broke is woken again.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;
use trueup_cluster::Executor;
use trueup_model::order::{Body, Order, Unit};
use trueup_model::report::{Outcome, Report};
use trueup_model::wake::Claimed;
use trueup_model::{Clock, crash};
use trueup_rules::envelope::Opener;
use trueup_rules::secret;
use trueup_store::{Error, Lease, Signals, Worker};

use crate::metrics::Metrics;

/// How many wakes are claimed at once, and how many may be under way.
const BATCH: i64 = 64;
const UNDER_WAY: usize = 256;
/// The safety net for a signal that got lost.
const POLL: Duration = Duration::from_secs(1);
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

/// Ends with the wake, and whether its order was passed.
type UnderWay = FuturesUnordered<BoxFuture<'static, (Claimed, bool)>>;

impl Driver {
    /// Drives until the lease is over.
    pub(crate) async fn run(self) {
        let mut under_way = UnderWay::new();
        loop {
            let claimed = match self.claim(&mut under_way).await {
                Ok(claimed) => claimed,
                Err(Error::Fenced) => return,
                Err(error) => {
                    tracing::warn!(%error, "wakes cannot be claimed now");
                    false
                }
            };
            if claimed {
                continue;
            }
            tokio::select! {
                Some((wake, passed)) = under_way.next() => self.end(&wake, passed).await,
                () = self.signals.woken() => {}
                () = self.clock.sleep(POLL) => self.measure().await,
            }
        }
    }

    /// Claims a batch and hands its orders over; answers whether there was any.
    async fn claim(&self, under_way: &mut UnderWay) -> Result<bool, Error> {
        if under_way.len() >= UNDER_WAY {
            return Ok(false);
        }
        let orders = self.worker.claim_orders(self.lease, BATCH, self.clock.now()).await?;
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
                    under_way.push(Box::pin(async move { (wake, false) }));
                    continue;
                }
            };
            let passed = self.executor.order(order).await;
            crash::point("driver.ordered").await;
            let (clock, metrics) = (Arc::clone(&self.clock), self.metrics.clone());
            under_way.push(Box::pin(async move {
                let passed = passed.await.is_ok();
                let took = clock.monotonic().saturating_sub(began);
                metrics.reconcile_seconds.observe(took.as_secs_f64());
                (wake, passed)
            }));
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

    async fn end(&self, wake: &Claimed, passed: bool) {
        crash::point("driver.passed").await;
        let now = self.clock.now();
        let ended = if passed {
            self.worker.finish_wake(wake, now).await
        } else {
            let tries = u32::try_from(wake.attempts).unwrap_or(0).min(6);
            let after = (Duration::from_secs(1) * 2_u32.pow(tries)).min(RETRY_MOST);
            let why = "its pass broke or its secrets are locked; see the log";
            self.worker.retry_wake(wake, after, why, now).await
        };
        if let Err(error) = ended {
            // It stays claimed; the next holder of the lease, or this one after its restart, requeues it.
            tracing::warn!(unit = %wake.unit, %error, "a wake could not be ended");
        }
        crash::point("driver.finished").await;
    }

    async fn measure(&self) {
        if let Ok((queued, running)) = self.worker.count_wakes().await {
            self.metrics.wakes_queued.set(queued);
            self.metrics.wakes_running.set(running);
        }
    }
}
