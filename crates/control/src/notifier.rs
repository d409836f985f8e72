//! The bell: notifications between processes that share a database.
//!
//! What a process has committed it rings out, a moment later and once for many; what others ring is
//! passed on inside. Nothing depends on it: whoever hears nothing polls. Something may have been missed
//! whenever listening begins anew, so everybody here is nudged once.

use std::sync::Arc;
use std::time::Duration;

use trueup_model::Clock;
use trueup_store::{Error, Notification, Signals, Worker};

/// How long what is to be rung is gathered.
const GATHER: Duration = Duration::from_millis(50);
/// Until a connection that was lost is made again.
const AGAIN: Duration = Duration::from_secs(1);
/// After so much silence the connection is made anew: it may be dead without saying so.
const SILENCE: Duration = Duration::from_secs(60);

/// Rings and listens for one process.
#[derive(Debug)]
pub struct Notifier {
    /// The database.
    pub worker: Worker,
    /// Who tells, and whom to notification.
    pub signals: Signals,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Who rings; a process does not heed itself.
    pub name: String,
}

impl Notifier {
    /// Rings and listens for ever.
    pub async fn run(self) {
        tokio::join!(self.ring(), self.listen());
    }

    async fn ring(&self) {
        let mut own = self.signals.own();
        let mut told = *own.borrow_and_update();
        while own.changed().await.is_ok() {
            self.clock.sleep(GATHER).await;
            let now = *own.borrow_and_update();
            for notification in now.since(told) {
                if let Err(error) = self.worker.ring(&self.name, notification).await {
                    tracing::debug!(%error, "other processes could not be told; they poll");
                }
            }
            told = now;
        }
    }

    async fn listen(&self) {
        loop {
            if let Err(error) = self.hear().await {
                tracing::debug!(%error, "nothing is heard of other processes; polling");
            }
            self.clock.sleep(AGAIN).await;
        }
    }

    /// Listens until the connection is lost, or silent for too long.
    async fn hear(&self) -> Result<(), Error> {
        let mut listener = self.worker.listen().await?;
        for notification in Notification::ALL {
            self.signals.hear(notification);
        }
        loop {
            let heard = tokio::select! {
                heard = listener.next() => heard?,
                () = self.clock.sleep(SILENCE) => return Ok(()),
            };
            let Some((who, notification)) = heard else { return Ok(()) };
            if who != self.name {
                self.signals.hear(notification);
            }
        }
    }
}
