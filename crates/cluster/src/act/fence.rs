//! The fence: no write is sent once the lease may have expired, by the monotonic clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use trueup_model::Clock;

/// Whether this process may still write. Renewed by the lease holder, checked before each write.
#[derive(Debug)]
pub struct Fence {
    clock: Arc<dyn Clock>,
    /// Milliseconds on the monotonic clock; zero means closed.
    open_until: AtomicU64,
}

impl Fence {
    /// A closed fence.
    #[must_use]
    pub fn closed(clock: Arc<dyn Clock>) -> Self {
        Self { clock, open_until: AtomicU64::new(0) }
    }

    /// Opens the fence until `asked_at` plus `ttl`. `asked_at` is taken before the lease was
    /// requested, so that a slow response never keeps the fence open longer than the lease.
    pub fn open(&self, asked_at: Duration, ttl: Duration) {
        let until = u64::try_from((asked_at + ttl).as_millis()).unwrap_or(u64::MAX);
        self.open_until.store(until, Ordering::Release);
    }

    /// Closes the fence at once.
    pub fn close(&self) {
        self.open_until.store(0, Ordering::Release);
    }

    /// Whether a write may be sent now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let now = u64::try_from(self.clock.monotonic().as_millis()).unwrap_or(u64::MAX);
        now < self.open_until.load(Ordering::Acquire)
    }
}
