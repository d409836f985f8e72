//! The recorder: records transitions of pods, disks and nodes that the executor observes.
//!
//! While the database is unavailable, updates stay in their queue, and the executor is not blocked.

use std::sync::Arc;
use std::time::Duration;

use trueup_cluster::Notices;
use trueup_model::Clock;
use trueup_store::{Error, Observer, Worker};

use crate::deadline::within;

/// How long updates are gathered, so that one transaction records many.
const GATHER: Duration = Duration::from_millis(50);
const BATCH: usize = 2048;
const RETRY: Duration = Duration::from_millis(500);

pub(crate) struct Recorder {
    pub(crate) worker: Worker,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observer: Observer,
    pub(crate) notices: Notices,
}

impl Recorder {
    /// Runs until the lease is lost.
    pub(crate) async fn run(self) {
        loop {
            let mut batch = self.notices.take(1).await;
            self.clock.sleep(GATHER).await;
            batch.extend(self.notices.take_now(BATCH));
            loop {
                let now = self.clock.now();
                let recorded = self.worker.note_transitions(&self.observer, &batch, now);
                match within(&*self.clock, recorded).await {
                    Ok(count) => {
                        tracing::debug!(updates = batch.len(), count, "transitions recorded");
                        break;
                    }
                    Err(Error::Fenced) => return,
                    Err(error) => {
                        tracing::warn!(
                            %error, updates = batch.len(), "cannot record transitions; will retry"
                        );
                        self.clock.sleep(RETRY).await;
                    }
                }
            }
        }
    }
}
