//! The recorder: records transitions of pods, disks and nodes that the executor observes, and how
//! far they were heard.
//!
//! While the database is unavailable, updates stay in their queue, and the executor is not blocked.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use trueup_cluster::Notices;
use trueup_model::Clock;
use trueup_model::cluster::Freshness;
use trueup_model::transition::ObjectUpdate;
use trueup_store::{Error, Observer, Worker};

use crate::deadline::within;

/// How long updates are gathered, so that one transaction records many.
const GATHER: Duration = Duration::from_millis(50);
const BATCH: usize = 2048;
const RETRY: Duration = Duration::from_millis(500);
/// How often the watermarks are recorded. Usage that grows is known up to them.
const WATERMARKS: Duration = Duration::from_secs(5);

pub(crate) struct Recorder {
    pub(crate) worker: Worker,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observer: Observer,
    pub(crate) notices: Notices,
    /// When each watch was last heard.
    pub(crate) heard: watch::Receiver<Freshness>,
    /// Notified when there is something to meter.
    pub(crate) recorded: Arc<Notify>,
}

impl Recorder {
    /// Runs until the lease is lost.
    pub(crate) async fn run(self) {
        let mut due = self.clock.monotonic();
        loop {
            let mut batch = tokio::select! {
                first = self.notices.take(1) => first,
                () = self.clock.sleep(WATERMARKS) => Vec::new(),
            };
            if !batch.is_empty() {
                self.clock.sleep(GATHER).await;
            }
            // Before the queue is emptied: everything that was heard by then is in it.
            let heard = self.heard.borrow().clone();
            batch.extend(self.notices.take_now(BATCH));
            let is_drained = batch.len() < BATCH;
            if self.record(&batch).await.is_err() {
                return;
            }
            if is_drained && self.clock.monotonic() >= due {
                due = self.clock.monotonic().saturating_add(WATERMARKS);
                let recorded = self.worker.record_watermarks(&self.observer, &heard);
                match within(&*self.clock, recorded).await {
                    Err(Error::Fenced) => return,
                    Err(error) => tracing::debug!(%error, "cannot record watermarks; will retry"),
                    Ok(()) => {}
                }
            }
        }
    }

    /// Records a batch, however long it takes.
    async fn record(&self, batch: &[ObjectUpdate]) -> Result<(), LeaseLost> {
        while !batch.is_empty() {
            let now = self.clock.now();
            let recorded = self.worker.note_transitions(&self.observer, batch, now);
            match within(&*self.clock, recorded).await {
                Ok(count) => {
                    tracing::debug!(updates = batch.len(), count, "transitions recorded");
                    self.recorded.notify_one();
                    break;
                }
                Err(Error::Fenced) => return Err(LeaseLost),
                Err(error) => {
                    tracing::warn!(
                        %error, updates = batch.len(), "cannot record transitions; will retry"
                    );
                    self.clock.sleep(RETRY).await;
                }
            }
        }
        Ok(())
    }
}

/// Another process works on the cluster now.
struct LeaseLost;
