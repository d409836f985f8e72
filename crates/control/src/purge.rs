//! The sweep: forgets, once an hour, what is kept for a while and no longer.

use std::sync::Arc;
use std::time::Duration;

use trueup_model::Clock;
use trueup_store::Worker;

const HOUR: Duration = Duration::from_secs(3600);

/// The loop that forgets.
#[derive(Debug)]
pub struct Purge {
    /// The database.
    pub worker: Worker,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

impl Purge {
    /// Sweeps for ever. What could not be forgotten now is forgotten an hour later.
    pub async fn run(self) {
        loop {
            match self.worker.purge_idempotency_keys(self.clock.now()).await {
                Ok(0) => {}
                Ok(forgotten) => tracing::debug!(forgotten, "old idempotency keys are forgotten"),
                Err(error) => tracing::debug!(%error, "old idempotency keys are still there"),
            }
            self.clock.sleep(HOUR).await;
        }
    }
}
