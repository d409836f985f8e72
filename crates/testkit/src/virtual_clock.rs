//! A clock that skips idle time, for runs without a database.
//!
//! It reads the paused time of the tokio runtime, which advances to the next sleeper once all tasks
//! are idle. Ten minutes of waiting take no real time, and two runs see the same times.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use trueup_model::clock::{Clock, Sleep};

/// The Unix time at the start.
const START: i64 = 1_800_000_000;

/// A clock on the paused time of a tokio runtime.
#[derive(Debug, Clone)]
pub struct VirtualClock {
    began: Instant,
}

impl VirtualClock {
    /// A clock that starts now. The runtime's time should be paused.
    #[must_use]
    pub fn new() -> Self {
        Self { began: Instant::now() }
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let start = Timestamp::from_second(START).expect("the start should be a time");
        let passed = SignedDuration::try_from(self.monotonic()).expect("runs should be short");
        start.checked_add(passed).expect("runs should be short")
    }

    fn monotonic(&self) -> Duration {
        self.began.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration))
    }
}
