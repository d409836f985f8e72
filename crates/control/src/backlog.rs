//! Measures the work queue in every process, whether or not it holds the lease.
//!
//! If no process holds the lease, only the standby processes can report the age of the oldest wake
//! (F50).

use std::sync::Arc;
use std::time::Duration;

use trueup_model::{Clock, ClusterId};
use trueup_store::Worker;

use crate::deadline::within;
use crate::metrics::Metrics;

const EVERY: Duration = Duration::from_secs(5);

pub(crate) struct Backlog {
    pub(crate) worker: Worker,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
    pub(crate) cluster: ClusterId,
}

impl Backlog {
    /// Measures for ever.
    pub(crate) async fn run(self) {
        loop {
            match within(&*self.clock, self.worker.lane_loads(self.cluster)).await {
                Ok(loads) => self.metrics.wakes(&loads, self.clock.now()),
                Err(error) => tracing::debug!(%error, "cannot count wakes; will retry"),
            }
            self.clock.sleep(EVERY).await;
        }
    }
}
