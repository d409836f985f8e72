//! Projects statuses again that older rules computed, once after the lease was acquired.
//!
//! A unit whose observation does not change is never reported again, so without this it would keep
//! the status of the version that reported it. While this process holds the lease no older version
//! writes a status, so once is enough.

use std::future;
use std::sync::Arc;
use std::time::Duration;

use trueup_model::Clock;
use trueup_store::{Error, Lease, Signals, Worker};

use crate::deadline::within;

/// How many statuses are locked at once.
const BATCH: i64 = 500;
const RETRY: Duration = Duration::from_secs(30);

pub(crate) struct Reprojector {
    pub(crate) worker: Worker,
    pub(crate) signals: Signals,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) lease: Lease,
}

impl Reprojector {
    /// Runs until the lease is lost. Once every status is current it only waits.
    pub(crate) async fn run(self) {
        let (mut after, mut changed) = (None, 0_usize);
        loop {
            let now = self.clock.now();
            let reprojecting = self.worker.reproject_statuses(self.lease, after, BATCH, now);
            let batch = match within(&*self.clock, reprojecting).await {
                Ok(batch) => batch,
                Err(Error::Fenced) => return,
                Err(error) => {
                    tracing::warn!(%error, "cannot project statuses of older rules; will retry");
                    self.clock.sleep(RETRY).await;
                    continue;
                }
            };
            for unit in &batch.unreadable {
                tracing::error!(
                    %unit,
                    "cannot read the inputs of its status; this is a defect in Trueup, and the \
                     status stays as an older version computed it"
                );
            }
            if batch.changed > 0 {
                self.signals.event();
            }
            changed = changed.saturating_add(batch.changed);
            if batch.last.is_none() {
                break;
            }
            after = batch.last;
        }
        if changed > 0 {
            tracing::info!(changed, "projected statuses of older rules again");
        }
        future::pending::<()>().await;
    }
}
