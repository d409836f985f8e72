//! Compares the executor's orders with the database, in case a wake was lost.
//!
//! One query a round. A unit whose order is missing or older is woken; when nothing differs, nothing
//! is written. A unit that has a wake is not woken twice.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use trueup_model::Clock;
use trueup_store::{Error, Lease, Signals, Worker};

use crate::deadline::within;
use crate::given_orders::GivenOrders;

/// The shortest pause between two rounds.
const LEAST: Duration = Duration::from_secs(90);
/// How many seconds longer a pause may be, so that clusters do not query all at once.
const SPREAD: u64 = 30;

pub(crate) struct OrderCheck {
    pub(crate) worker: Worker,
    pub(crate) signals: Signals,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) lease: Lease,
    pub(crate) given: GivenOrders,
}

impl OrderCheck {
    /// Runs until the lease is lost.
    pub(crate) async fn run(self) {
        for round in 0_u64.. {
            self.clock.sleep(self.pause(round)).await;
            match self.compare().await {
                Ok(0) => {}
                Ok(woken) => {
                    tracing::warn!(woken, "orders were older than the database; woke their units");
                    self.signals.wake();
                }
                Err(Error::Fenced) => return,
                Err(error) => {
                    tracing::debug!(%error, "cannot compare orders; retrying in the next round");
                }
            }
        }
    }

    /// Wakes the units whose order is missing or older than the database; returns how many.
    async fn compare(&self) -> Result<u64, Error> {
        let accepted = self.worker.order_marks(self.lease.scope);
        let outdated = self.given.outdated(&within(&*self.clock, accepted).await?);
        if outdated.is_empty() {
            return Ok(0);
        }
        let woken = self.worker.wake_units(self.lease, &outdated, self.clock.now());
        within(&*self.clock, woken).await
    }

    fn pause(&self, round: u64) -> Duration {
        let mut hasher = DefaultHasher::new();
        (self.lease.scope, self.lease.epoch, round).hash(&mut hasher);
        LEAST + Duration::from_secs(hasher.finish() % (SPREAD + 1))
    }
}
