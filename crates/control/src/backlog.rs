//! What waits, counted by every process whether it works on the cluster or not.
//!
//! When nobody holds the lease nothing is done, and nobody is there to say so but those who stand by. So
//! the age of waiting work is theirs to tell, too (F50).

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
    /// Counts for ever.
    pub(crate) async fn run(self) {
        loop {
            match within(&*self.clock, self.worker.lane_loads(self.cluster)).await {
                Ok(loads) => self.metrics.wakes(&loads, self.clock.now()),
                Err(error) => tracing::debug!(%error, "wakes cannot be counted now"),
            }
            self.clock.sleep(EVERY).await;
        }
    }
}
