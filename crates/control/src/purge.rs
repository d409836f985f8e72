//! Deletes expired idempotency keys, once an hour.

use std::sync::Arc;
use std::time::Duration;

use trueup_model::Clock;
use trueup_store::Worker;

const HOUR: Duration = Duration::from_secs(3600);

/// The loop that deletes expired idempotency keys.
#[derive(Debug)]
pub struct Purge {
    /// The database.
    pub worker: Worker,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl Purge {
    /// Runs for ever. A failed deletion is repeated an hour later.
    pub async fn run(self) {
        loop {
            match self.worker.purge_idempotency_keys(self.clock.now()).await {
                Ok(0) => {}
                Ok(deleted) => tracing::debug!(deleted, "deleted expired idempotency keys"),
                Err(error) => {
                    tracing::debug!(%error, "cannot delete expired idempotency keys; will retry")
                }
            }
            self.clock.sleep(HOUR).await;
        }
    }
}
