//! Time is an input. Production uses a clock anchored to database time, tests a manual one.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;

/// A wait that can be awaited from any runtime.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where a loop gets its time from.
pub trait Clock: Debug + Send + Sync {
    /// Wall time, for what is stored and shown.
    fn now(&self) -> Timestamp;
    /// Time since an arbitrary start that never jumps, for leases and deadlines.
    fn monotonic(&self) -> Duration;
    /// Completes once `duration` has passed on this clock.
    fn sleep(&self, duration: Duration) -> Sleep;
}
