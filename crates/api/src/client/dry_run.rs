//! Writes that are only previewed: the same methods, on a client that sends `?dry_run=true`.

use std::sync::{Arc, Mutex, PoisonError};

use super::Client;
use crate::preview::Preview;

/// Where a client that rehearses leaves the last preview.
pub(super) type Seen = Arc<Mutex<Option<Preview>>>;

/// A client of whose writes nothing stays.
#[derive(Debug, Clone)]
pub struct DryRunClient {
    client: Client,
    seen: Seen,
}

impl DryRunClient {
    /// Answers each write as if it had been done: ids of new things are examples, and no answer says
    /// that it changed anything.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// What the last write would do; none where there was none.
    #[must_use]
    pub fn seen(&self) -> Option<Preview> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Client {
    /// Begins to rehearse: whatever is written with [`DryRunClient::client`] is previewed only.
    #[must_use]
    pub fn dry_run(&self) -> DryRunClient {
        let seen = Seen::default();
        DryRunClient { client: Self { seen: Some(Arc::clone(&seen)), ..self.clone() }, seen }
    }
}
