//! Dry runs: the same methods, on a client that sends `?dry_run=true`.

use std::sync::{Arc, Mutex, PoisonError};

use super::Client;
use crate::preview::Preview;

/// Where a dry-run client stores the last preview.
pub(super) type Seen = Arc<Mutex<Option<Preview>>>;

/// A client whose writes are dry runs.
#[derive(Debug, Clone)]
pub struct DryRunClient {
    client: Client,
    seen: Seen,
}

impl DryRunClient {
    /// The client to write with. Its responses look as if the write had been done.
    ///
    /// Ids of new objects are examples, and no response reports a change.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Takes the preview of the last write; `None` if there was no write.
    #[must_use]
    pub fn seen(&self) -> Option<Preview> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Client {
    /// A dry-run client: writes with [`DryRunClient::client`] are only previewed.
    #[must_use]
    pub fn dry_run(&self) -> DryRunClient {
        let seen = Seen::default();
        DryRunClient { client: Self { seen: Some(Arc::clone(&seen)), ..self.clone() }, seen }
    }
}
