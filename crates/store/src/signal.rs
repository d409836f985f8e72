//! Nudges inside one process, so that nobody waits for a poll. Polling stays the safety net.

use std::sync::Arc;

use tokio::sync::{Notify, watch};

/// Who wants to know that something was committed.
#[derive(Debug, Clone)]
pub struct Signals {
    wakes: Arc<Notify>,
    events: Arc<Notify>,
    seals: watch::Sender<u64>,
    freezes: watch::Sender<u64>,
}

impl Default for Signals {
    fn default() -> Self {
        Self {
            wakes: Arc::default(),
            events: Arc::default(),
            seals: watch::Sender::new(0),
            freezes: watch::Sender::new(0),
        }
    }
}

impl Signals {
    /// A wake was recorded.
    pub fn wake(&self) {
        self.wakes.notify_one();
    }

    /// An event was recorded and wants sealing.
    pub fn event(&self) {
        self.events.notify_one();
    }

    /// Events were sealed and can be read.
    pub fn sealed(&self) {
        self.seals.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// A cluster or the platform was frozen or let go.
    pub fn freeze(&self) {
        self.freezes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Changes whenever a cluster or the platform was frozen or let go.
    #[must_use]
    pub fn freezes(&self) -> watch::Receiver<u64> {
        self.freezes.subscribe()
    }

    /// Completes once a wake was recorded since the last call.
    pub async fn woken(&self) {
        self.wakes.notified().await;
    }

    /// Completes once an event was recorded since the last call.
    pub async fn recorded(&self) {
        self.events.notified().await;
    }

    /// Changes whenever events were sealed.
    #[must_use]
    pub fn seals(&self) -> watch::Receiver<u64> {
        self.seals.subscribe()
    }
}
