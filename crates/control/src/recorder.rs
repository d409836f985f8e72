//! The recorder: writes down what the executor notices of pods, disks and nodes.
//!
//! While the database is away notices wait where they are, and the executor does not wait for them.

use std::sync::Arc;
use std::time::Duration;

use trueup_cluster::Notices;
use trueup_model::Clock;
use trueup_store::{Error, Observer, Worker};

use crate::deadline::within;

/// How long notices are gathered, so that one transaction carries many.
const GATHER: Duration = Duration::from_millis(50);
const BATCH: usize = 2048;
const AWAY: Duration = Duration::from_millis(500);

pub(crate) struct Recorder {
    pub(crate) worker: Worker,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observer: Observer,
    pub(crate) notices: Notices,
}

impl Recorder {
    /// Records until the lease is over.
    pub(crate) async fn run(self) {
        loop {
            let mut batch = self.notices.take(1).await;
            self.clock.sleep(GATHER).await;
            batch.extend(self.notices.take_now(BATCH));
            loop {
                let now = self.clock.now();
                let noted = self.worker.note_transitions(&self.observer, &batch, now);
                match within(&*self.clock, noted).await {
                    Ok(count) => {
                        tracing::debug!(noticed = batch.len(), count, "transitions recorded");
                        break;
                    }
                    Err(Error::Fenced) => return,
                    Err(error) => {
                        tracing::warn!(%error, notices = batch.len(), "transitions cannot be recorded now");
                        self.clock.sleep(AWAY).await;
                    }
                }
            }
        }
    }
}
