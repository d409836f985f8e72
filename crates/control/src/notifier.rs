//! Notifications between replicas that share a database, by Postgres NOTIFY.
//!
//! What this process commits is sent to the others, coalesced; what others send is passed on to the
//! local loops. Delivery is best effort, and every loop also polls. Notifications may have been
//! missed whenever a connection starts to listen, so then every local loop is signalled once.

use std::sync::Arc;
use std::time::Duration;

use trueup_model::Clock;
use trueup_store::{Error, Notification, Signals, Worker};

/// How long notifications are gathered before they are sent.
const GATHER: Duration = Duration::from_millis(50);
/// The pause before a lost connection is replaced.
const RECONNECT: Duration = Duration::from_secs(1);
/// A connection without notifications for this long is replaced: it may be dead.
const SILENCE: Duration = Duration::from_secs(60);

/// Sends and receives notifications for one process.
#[derive(Debug)]
pub struct Notifier {
    /// The database.
    pub worker: Worker,
    /// The local signals: sent to other replicas, and raised by their notifications.
    pub signals: Signals,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The name of this process; it ignores its own notifications.
    pub name: String,
}

impl Notifier {
    /// Sends and receives for ever.
    pub async fn run(self) {
        tokio::join!(self.send(), self.listen());
    }

    async fn send(&self) {
        let mut own = self.signals.own();
        let mut sent = *own.borrow_and_update();
        while own.changed().await.is_ok() {
            self.clock.sleep(GATHER).await;
            let now = *own.borrow_and_update();
            for notification in now.since(sent) {
                if let Err(error) = self.worker.ring(&self.name, notification).await {
                    tracing::debug!(%error, "cannot notify the other replicas; they poll");
                }
            }
            sent = now;
        }
    }

    async fn listen(&self) {
        loop {
            if let Err(error) = self.receive().await {
                tracing::debug!(%error, "cannot receive notifications from replicas; polling");
            }
            self.clock.sleep(RECONNECT).await;
        }
    }

    /// Receives until the connection is lost, or silent for too long.
    async fn receive(&self) -> Result<(), Error> {
        let mut listener = self.worker.listen().await?;
        for notification in Notification::ALL {
            self.signals.hear(notification);
        }
        loop {
            let received = tokio::select! {
                received = listener.next() => received?,
                () = self.clock.sleep(SILENCE) => return Ok(()),
            };
            let Some((who, notification)) = received else { return Ok(()) };
            if who != self.name {
                self.signals.hear(notification);
            }
        }
    }
}
