//! The brake: stops every act on a cluster at once, and no look at it.

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
    /// Says whether the cluster is frozen now. Whoever works on it looks again if that changed.
    pub fn set(&self, freeze: Option<Freeze>) {
        self.freeze.send_if_modified(|now| {
            let changed = *now != freeze;
            *now = freeze;
            changed
        });
    }

    /// What is in force now.
    #[must_use]
    pub fn now(&self) -> Option<Freeze> {
        self.freeze.borrow().clone()
    }

    /// Changes whenever it is set otherwise.
    pub(crate) fn changes(&self) -> watch::Receiver<Option<Freeze>> {
        self.freeze.subscribe()
    }
}
