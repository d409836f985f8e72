//! The finder: writes down what sweeps find, and removes what somebody asked to be removed.

use std::sync::Arc;
use std::time::Duration;

use trueup_cluster::{Executor, Notices};
use trueup_model::Clock;
use trueup_store::{Error, Lease, Removal, Signals, Worker};

use crate::deadline::within;

/// How often is looked for what somebody asked to be removed.
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
    /// Works until the lease is over.
    pub(crate) async fn run(self) {
        loop {
            let done = tokio::select! {
                swept = self.notices.take_swept() => {
                    let noted = self.worker.note_findings(self.lease, &swept, self.clock.now());
                    within(&*self.clock, noted).await
                }
                () = self.clock.sleep(POLL) => self.remove().await,
            };
            match done {
                Ok(0) => {}
                Ok(_) => self.signals.event(),
                Err(Error::Fenced) => return,
                // What was swept is swept again in ten minutes.
                Err(error) => tracing::warn!(%error, "findings cannot be written down now"),
            }
        }
    }

    /// Removes what was asked for; answers how many ended one way or the other.
    async fn remove(&self) -> Result<usize, Error> {
        let asked = self.worker.asked_removals(self.lease.cluster);
        let asked = within(&*self.clock, asked).await?;
        let mut ended = 0;
        for Removal { found, recorded } in asked {
            let kept = match recorded {
                true => Some("a service or project records it by now".to_owned()),
                false => match self.executor.remove(&found).await {
                    Ok(()) => None,
                    // It is tried again when the cluster is back.
                    Err(error) if error.is_away() => {
                        tracing::debug!(key = %found.key, %error, "it cannot be removed now");
                        continue;
                    }
                    Err(error) => Some(error.to_string()),
                },
            };
            let now = self.clock.now();
            let told = self.worker.end_removal(self.lease, &found, kept.as_deref(), now);
            within(&*self.clock, told).await?;
            ended += 1;
        }
        Ok(ended)
    }
}
