//! The usage meter: computes usage records from the transitions that the recorder wrote.
//!
//! What has to be computed is marked in the database, so nothing is lost when this process ends. An
//! object that does not change is not marked, and costs nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use trueup_model::Clock;
use trueup_model::usage::GapPolicy;
use trueup_store::{Error, Lease, Metered, Worker};

use crate::deadline::within;
use crate::metrics::Metrics;

/// How often marks are polled: releases and other replicas set them, too.
const POLL: Duration = Duration::from_secs(5);
/// How many marks are worked off in one transaction.
const BATCH: i64 = 200;

pub(crate) struct UsageMeter {
    pub(crate) worker: Worker,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
    pub(crate) lease: Lease,
    /// What a time without observation costs.
    pub(crate) policy: GapPolicy,
    /// Notified when there is something to meter.
    pub(crate) recorded: Arc<Notify>,
}

impl UsageMeter {
    /// Runs until the lease is lost.
    pub(crate) async fn run(self) {
        loop {
            match self.work_off().await {
                Ok(()) => {}
                Err(Error::Fenced) => return,
                Err(error) => tracing::warn!(%error, "cannot meter usage; will retry"),
            }
            self.measure_silence().await;
            tokio::select! {
                () = self.recorded.notified() => {}
                () = self.clock.sleep(POLL) => {}
            }
        }
    }

    /// Meters until no mark is left.
    async fn work_off(&self) -> Result<(), Error> {
        loop {
            let metered = self.worker.meter(self.lease, BATCH, self.policy, self.clock.now());
            let Metered { marks, written } = within(&*self.clock, metered).await?;
            if marks > 0 {
                tracing::debug!(marks, written, "usage metered");
            }
            if i64::try_from(marks).unwrap_or(i64::MAX) < BATCH {
                return Ok(());
            }
        }
    }

    /// Measures how long the most silent source was not heard: usage that is not observed may never
    /// be billed.
    async fn measure_silence(&self) {
        let read = self.worker.watermarks(self.lease.scope);
        let Ok(watermarks) = within(&*self.clock, read).await else { return };
        if let Some(oldest) = watermarks.values().map(|contact| contact.seen_at).min() {
            let silent = self.clock.now().duration_since(oldest).as_secs_f64();
            self.metrics.usage_silent_seconds.set(silent.max(0.0));
        }
    }
}
