//! A clock that moves only when the test advances it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Notify, oneshot};
use trueup_model::clock::{Clock, Sleep};

/// A clock that stands still until [`ManualClock::advance`]. Clones share the same time.
#[derive(Debug, Clone, Default)]
pub struct ManualClock {
    state: Arc<Mutex<State>>,
    /// Notified of each new sleeper.
    asleep: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    passed: Duration,
    sleepers: BTreeMap<(Duration, u64), oneshot::Sender<()>>,
    slept: u64,
}

/// The Unix time at the start: a round number that reads well in snapshots.
const START: i64 = 1_800_000_000;
/// How long a test waits for a sleeper, in real time. Only a failing test waits this long.
const TIMEOUT: Duration = Duration::from_secs(300);

impl ManualClock {
    /// A clock at its start time.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Advances the clock and wakes every sleeper that is due.
    pub fn advance(&self, by: Duration) {
        let mut state = self.state();
        state.passed += by;
        let due = state.passed;
        let later = state.sleepers.split_off(&(due + Duration::from_nanos(1), 0));
        for (_, sleeper) in std::mem::replace(&mut state.sleepers, later) {
            // The sleeper may have been dropped.
            let _gone = sleeper.send(());
        }
    }

    /// The number of sleepers, whatever they wait for.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        self.deadlines().len()
    }

    /// When each sleeper wakes, in [`Clock::monotonic`] time, soonest first.
    #[must_use]
    pub fn deadlines(&self) -> Vec<Duration> {
        let state = self.state();
        let waiting = state.sleepers.iter().filter(|(_, sleeper)| !sleeper.is_closed());
        waiting.map(|((at, _), _)| *at).collect()
    }

    /// Waits until some sleeper is due at exactly this time, in [`Clock::monotonic`] time.
    ///
    /// Waiting for any sleeper proves little: the timeout of a database call in flight is one, too.
    /// A loop that sleeps until the expected time has finished the work before it.
    ///
    /// # Panics
    /// No such sleeper appears in time.
    pub async fn until_sleeping_until(&self, at: Duration) {
        let what = format!("a sleeper until {at:?}");
        self.until_asleep(&what, |deadlines| deadlines.contains(&at).then_some(())).await;
    }

    /// Waits until some sleeper is due within this time from now; returns the time until then.
    ///
    /// # Panics
    /// No such sleeper appears in time.
    pub async fn until_sleeping_within(&self, limit: Duration) -> Duration {
        let what = format!("a sleeper for at most {limit:?}");
        let next = |deadlines: &[Duration]| {
            let left = deadlines.first()?.saturating_sub(self.monotonic());
            (left <= limit).then_some(left)
        };
        self.until_asleep(&what, next).await
    }

    async fn until_asleep<T>(&self, what: &str, found: impl Fn(&[Duration]) -> Option<T>) -> T {
        let sleeping = tokio::time::timeout(TIMEOUT, async {
            loop {
                let mut more = std::pin::pin!(self.asleep.notified());
                // Registered before the check, so that no sleeper is missed.
                more.as_mut().enable();
                if let Some(found) = found(&self.deadlines()) {
                    return found;
                }
                more.await;
            }
        });
        let (now, sleeping) = (self.monotonic(), sleeping.await.ok());
        let deadlines = self.deadlines();
        sleeping.unwrap_or_else(|| panic_without_sleeper(what, now, &deadlines))
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
            let _sent = wake.send(());
        } else {
            state.sleepers.insert(at, wake);
        }
        drop(state);
        self.asleep.notify_waiters();
        Box::pin(async move {
            // The clock was dropped, so time never advances again.
            if woken.await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

#[expect(clippy::panic, reason = "a sleeper that never appears fails the test")]
fn panic_without_sleeper(what: &str, now: Duration, deadlines: &[Duration]) -> ! {
    panic!("timed out waiting for {what}; now is {now:?}, the sleepers are due at {deadlines:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn sleepers_wake_when_due_and_not_before() {
        let clock = ManualClock::new();
        let mut short = clock.sleep(Duration::from_secs(1));
        let mut long = clock.sleep(Duration::from_secs(2));
        clock.advance(Duration::from_millis(999));
        assert!((&mut short).now_or_never().is_none());
        clock.advance(Duration::from_millis(1));
        assert!((&mut short).now_or_never().is_some());
        assert!((&mut long).now_or_never().is_none());
        assert_eq!(clock.deadlines(), [Duration::from_secs(2)]);
        drop(long);
        assert!(clock.deadlines().is_empty());
    }

    #[tokio::test]
    async fn waiting_for_a_sleeper_ignores_other_sleepers() {
        let clock = ManualClock::new();
        let (limit, nap) = (Duration::from_secs(40), Duration::from_secs(1));
        let _call = clock.sleep(limit);
        let mut at = Box::pin(clock.until_sleeping_until(nap));
        let mut within = Box::pin(clock.until_sleeping_within(nap));
        assert!((&mut at).now_or_never().is_none(), "the timeout of a call does not count");
        assert!((&mut within).now_or_never().is_none(), "the timeout of a call does not count");
        let _nap = clock.sleep(nap);
        at.await;
        assert_eq!(within.await, nap);
    }
}
