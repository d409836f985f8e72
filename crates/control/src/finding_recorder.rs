//! The finding recorder: records what sweeps find, and removes objects on request.

use std::sync::Arc;
use std::time::Duration;

use trueup_cluster::{Executor, Notices};
use trueup_model::Clock;
use trueup_store::{Error, Lease, Removal, Signals, Worker};

use crate::deadline::within;

/// How often requested removals are polled.
const POLL: Duration = Duration::from_secs(2);

pub(crate) struct FindingRecorder {
    pub(crate) worker: Worker,
    pub(crate) signals: Signals,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) lease: Lease,
    pub(crate) notices: Notices,
    pub(crate) executor: Arc<Executor>,
}

impl FindingRecorder {
    /// Runs until the lease is lost.
    pub(crate) async fn run(self) {
        loop {
            let done = tokio::select! {
                swept = self.notices.take_sweeps() => {
                    let recorded = self.worker.note_findings(self.lease, &swept, self.clock.now());
                    within(&*self.clock, recorded).await
                }
                () = self.clock.sleep(POLL) => self.remove().await,
            };
            match done {
                Ok(0) => {}
                Ok(_) => self.signals.event(),
                Err(Error::Fenced) => return,
                // The next sweep, in two minutes, finds the same.
                Err(error) => tracing::warn!(%error, "cannot record findings; will sweep again"),
            }
        }
    }

    /// Makes the requested removals; returns how many were removed or refused.
    async fn remove(&self) -> Result<usize, Error> {
        let requested = self.worker.requested_removals(self.lease.scope);
        let requested = within(&*self.clock, requested).await?;
        let mut ended = 0;
        for Removal { found, recorded } in requested {
            let kept = match recorded {
                true => Some("a service or project has a record of it now".to_owned()),
                false => match self.executor.remove(&found).await {
                    Ok(()) => None,
                    // Retried when the cluster is reachable again.
                    Err(error) if error.is_unavailable() => {
                        tracing::debug!(
                            key = %found.key, %error, "cannot remove an object; will retry"
                        );
                        continue;
                    }
                    Err(error) => Some(error.to_string()),
                },
            };
            let now = self.clock.now();
            let recorded = self.worker.end_removal(self.lease, &found, kept.as_deref(), now);
            within(&*self.clock, recorded).await?;
            ended += 1;
        }
        Ok(ended)
    }
}
