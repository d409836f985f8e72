//! Computes where the capacity of the cluster went, and raises an alarm if more was used than existed.
//!
//! Usage that does not fit into the nodes is billed wrongly, so it is an incident of billing.

use std::sync::Arc;
use std::time::Duration;

use trueup_model::Clock;
use trueup_store::{CapacityCheck as Found, Error, Lease, Worker};

use crate::deadline::within;
use crate::metrics::Metrics;

/// How often.
const EVERY: Duration = Duration::from_secs(300);

pub(crate) struct CapacityCheck {
    pub(crate) worker: Worker,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
    pub(crate) lease: Lease,
}

impl CapacityCheck {
    /// Runs until the lease is lost.
    pub(crate) async fn run(self) {
        loop {
            let computing = self.worker.balance_capacity(self.lease, self.clock.now());
            match within(&*self.clock, computing).await {
                Ok(Found { computed, broken }) => {
                    tracing::debug!(computed, "capacity accounted for");
                    self.metrics
                        .capacity_unexplained_days
                        .set(i64::try_from(broken.len()).unwrap_or(i64::MAX));
                    if let Some(day) = broken.first() {
                        tracing::error!(
                            day,
                            days = broken.len(),
                            "more was used than the nodes had"
                        );
                    }
                }
                Err(Error::Fenced) => return,
                Err(error) => tracing::warn!(%error, "cannot account for capacity; will retry"),
            }
            self.clock.sleep(EVERY).await;
        }
    }
}
