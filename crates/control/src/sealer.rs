//! The sealer: puts recorded events in order, as soon as nothing can come before them any more.

use std::sync::Arc;
use std::time::Duration;

use trueup_model::Clock;
use trueup_store::{Signals, Worker};

use crate::metrics::Metrics;

/// How long it sleeps when nobody calls.
const IDLE: Duration = Duration::from_secs(1);
/// How long it waits for a slower transaction to end.
const FENCED: Duration = Duration::from_millis(20);

/// The loop that seals events.
#[derive(Debug)]
pub struct Sealer {
    /// The database.
    pub worker: Worker,
    /// Who calls, and whom to tell.
    pub signals: Signals,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Counters.
    pub metrics: Metrics,
}

impl Sealer {
    /// Seals for ever.
    pub async fn run(self) {
        loop {
            let pause = match self.seal_all().await {
                Ok(0) => IDLE,
                Ok(_) => FENCED,
                Err(error) => {
                    tracing::debug!(%error, "events cannot be sealed now");
                    IDLE
                }
            };
            tokio::select! {
                () = self.signals.recorded() => {}
                () = self.clock.sleep(pause) => {}
            }
        }
    }

    /// Seals what can be sealed; answers how many events still wait.
    async fn seal_all(&self) -> Result<i64, trueup_store::Error> {
        while self.worker.seal_events().await? > 0 {
            self.signals.sealed();
        }
        let waiting = self.worker.unsealed_events().await?;
        self.metrics.events_unsealed.set(waiting);
        Ok(waiting)
    }
}
