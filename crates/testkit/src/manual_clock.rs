//! Time that moves when the test says so.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::oneshot;
use trueup_model::clock::{Clock, Sleep};

/// A clock that stands still until it is moved. Clones are the same clock.
#[derive(Debug, Clone, Default)]
pub struct ManualClock {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    passed: Duration,
    sleepers: BTreeMap<(Duration, u64), oneshot::Sender<()>>,
    slept: u64,
}

/// What the clock shows before it is moved: an even moment that reads well in snapshots.
const START: i64 = 1_800_000_000;

impl ManualClock {
    /// A clock at its start.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves on, and wakes everybody whose time has come.
    pub fn advance(&self, by: Duration) {
        let mut state = self.state();
        state.passed += by;
        let due = state.passed;
        let later = state.sleepers.split_off(&(due + Duration::from_nanos(1), 0));
        for (_, sleeper) in std::mem::replace(&mut state.sleepers, later) {
            // Whoever slept may have been dropped.
            let _gone = sleeper.send(());
        }
    }

    /// How many wait for time to pass.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        self.state().sleepers.values().filter(|sleeper| !sleeper.is_closed()).count()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let start = Timestamp::from_second(START).expect("the start should be a time");
        let passed = SignedDuration::try_from(self.state().passed).expect("tests should be short");
        start.checked_add(passed).expect("tests should be short")
    }

    fn monotonic(&self) -> Duration {
        self.state().passed
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        let (wake, woken) = oneshot::channel();
        let mut state = self.state();
        state.slept += 1;
        let at = (state.passed + duration, state.slept);
        if duration.is_zero() {
            let _heard = wake.send(());
        } else {
            state.sleepers.insert(at, wake);
        }
        Box::pin(async move {
            // The clock itself is gone: nobody will ever move it.
            if woken.await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn sleepers_wake_when_their_time_has_come_and_not_before() {
        let clock = ManualClock::new();
        let mut short = clock.sleep(Duration::from_secs(1));
        let mut long = clock.sleep(Duration::from_secs(2));
        clock.advance(Duration::from_millis(999));
        assert!((&mut short).now_or_never().is_none());
        clock.advance(Duration::from_millis(1));
        assert!((&mut short).now_or_never().is_some());
        assert!((&mut long).now_or_never().is_none());
        assert_eq!(clock.sleepers(), 1);
    }
}
