//! Measures how long changes take: from their acceptance to the first healthy status.
//!
//! The time of acceptance is in the database only, so it is read here and not where reports pass.

use std::sync::Arc;

use tokio::sync::mpsc;
use trueup_model::Clock;
use trueup_store::Worker;

use crate::deadline::within;
use crate::metrics::Metrics;
use crate::service_meter::FirstHealthy;

/// How many services are read at once.
const BATCH: usize = 256;

pub(crate) struct AcceptanceTimer {
    pub(crate) worker: Worker,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
}

impl AcceptanceTimer {
    /// Runs until the report tap is gone.
    pub(crate) async fn run(self, mut healthy: mpsc::Receiver<FirstHealthy>) {
        let mut batch = Vec::new();
        while healthy.recv_many(&mut batch, BATCH).await > 0 {
            self.measure(&batch).await;
            batch.clear();
        }
    }

    async fn measure(&self, batch: &[FirstHealthy]) {
        let units: Vec<_> = batch.iter().map(|one| one.unit).collect();
        let accepted = match within(&*self.clock, self.worker.accepted_at(&units)).await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "cannot read when services were accepted; not measured");
                return;
            }
        };
        for one in batch {
            // Not if a newer generation was accepted meanwhile.
            let Some((generation, at)) = accepted.get(&one.unit) else { continue };
            if *generation == one.generation {
                let took = one.at.duration_since(*at).as_secs_f64().max(0.0);
                self.metrics.accept_to_healthy_seconds.observe(took);
            }
        }
    }
}
