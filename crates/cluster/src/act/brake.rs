//! The brake: stops all writes to a cluster at once; reads continue.

use tokio::sync::watch;
use trueup_model::freeze::Freeze;

/// Whether a cluster is frozen. Clones are the same brake.
#[derive(Debug, Clone)]
pub struct Brake {
    freeze: watch::Sender<Option<Freeze>>,
}

impl Default for Brake {
    fn default() -> Self {
        Self { freeze: watch::Sender::new(None) }
    }
}

impl Brake {
    /// Sets or clears the freeze. A change requeues every unit.
    pub fn set(&self, freeze: Option<Freeze>) {
        self.freeze.send_if_modified(|now| {
            let changed = *now != freeze;
            *now = freeze;
            changed
        });
    }

    /// The freeze in force, if any.
    #[must_use]
    pub fn now(&self) -> Option<Freeze> {
        self.freeze.borrow().clone()
    }

    /// Notified when the freeze changes.
    pub(crate) fn changes(&self) -> watch::Receiver<Option<Freeze>> {
        self.freeze.subscribe()
    }
}
