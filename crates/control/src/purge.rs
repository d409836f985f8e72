//! Deletes what is kept for a time only, once an hour: idempotency keys, and divergences that ended.

use std::sync::Arc;
use std::time::Duration;

use trueup_model::Clock;
use trueup_store::{Error, Worker};

const HOUR: Duration = Duration::from_secs(3600);

/// The loop that deletes what has expired.
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
            let now = self.clock.now();
            note("idempotency keys", self.worker.purge_idempotency_keys(now).await);
            note("divergences", self.worker.purge_divergences(now).await);
            self.clock.sleep(HOUR).await;
        }
    }
}

fn note(what: &str, deleted: Result<u64, Error>) {
    match deleted {
        Ok(0) => {}
        Ok(deleted) => tracing::debug!(deleted, "deleted expired {what}"),
        Err(error) => tracing::debug!(%error, "cannot delete expired {what}; will retry"),
    }
}
