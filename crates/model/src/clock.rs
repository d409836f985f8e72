//! Time is an input. Production uses a clock anchored to database time, tests a manual one.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;

/// A sleep that can be awaited from any runtime.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The source of time for loops.
pub trait Clock: Debug + Send + Sync {
    /// Wall-clock time, for timestamps that are stored and displayed.
    fn now(&self) -> Timestamp;
    /// Time since an arbitrary start that never jumps, for leases and deadlines.
    fn monotonic(&self) -> Duration;
    /// Completes once `duration` has passed on this clock.
    fn sleep(&self, duration: Duration) -> Sleep;
}
