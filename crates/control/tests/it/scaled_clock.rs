//! Real time, several times as fast, but never faster than the database answers.
//!
//! Most of this suite's time would be spent waiting: for leases to expire, for polls, and for calls
//! that a dead process may have in flight. On this clock all of that passes eight times as fast. A
//! busy machine must not cost a holder its lease, so the clock advances at most [`STEP`] per
//! answered ping of the database, which is sent by the same thread and to the same server as the
//! queries of the loops. Between two renewals of a lease there are at least six such answers, and
//! within its duration twenty.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;
use trueup_model::Clock;
use trueup_model::clock::Sleep;
use trueup_store::{App, DbClock};

/// How much faster than real time it runs.
const FACTOR: u32 = 8;
/// How far it advances without an answer of the database.
const STEP: Duration = Duration::from_millis(480);
/// The pause between two pings of the database, in real time.
const PING_EVERY: Duration = Duration::from_millis(25);

/// A fast clock. Clones are the same clock.
#[derive(Debug, Clone)]
pub(crate) struct ScaledClock {
    began: Timestamp,
    last: Arc<watch::Sender<Answer>>,
}

/// An answer of the database: when it came, and what the clock showed then.
#[derive(Debug, Clone, Copy)]
struct Answer {
    at: Instant,
    shown: Duration,
}

impl Answer {
    /// What the clock shows now.
    fn now(self) -> Duration {
        self.shown + (self.at.elapsed() * FACTOR).min(STEP)
    }
}

impl ScaledClock {
    pub(crate) fn new() -> Self {
        let began = Answer { at: Instant::now(), shown: Duration::ZERO };
        Self { began: DbClock::unanchored().now(), last: Arc::new(watch::Sender::new(began)) }
    }

    /// Pings the database for ever. The clock stands still when this does not run.
    pub(crate) async fn run(self, app: App) {
        loop {
            if app.ping().await.is_ok() {
                self.last.send_modify(|last| {
                    *last = Answer { shown: last.now(), at: Instant::now() };
                });
            }
            tokio::time::sleep(PING_EVERY).await;
        }
    }
}

impl Clock for ScaledClock {
    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.monotonic()).expect("tests should be short");
        let now = self.began.checked_add(passed).expect("tests should be short");
        // Postgres keeps microseconds.
        Timestamp::from_microsecond(now.as_microsecond()).expect("it should stay a time")
    }

    fn monotonic(&self) -> Duration {
        self.last.borrow().now()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        let until = self.monotonic() + duration;
        let mut answers = self.last.subscribe();
        Box::pin(async move {
            loop {
                let last = *answers.borrow_and_update();
                let left = until.saturating_sub(last.shown);
                if left <= STEP {
                    return tokio::time::sleep_until(last.at + left / FACTOR).await;
                }
                if answers.changed().await.is_err() {
                    // The clock is gone: time stands still for ever.
                    std::future::pending::<()>().await;
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// The database answers now.
    fn answer(clock: &ScaledClock) {
        clock.last.send_modify(|last| *last = Answer { shown: last.now(), at: Instant::now() });
    }

    #[tokio::test(start_paused = true)]
    async fn time_advances_at_most_one_step_without_a_database_answer() {
        let clock = ScaledClock::new();
        let mut short = clock.sleep(STEP);
        let mut long = clock.sleep(STEP * 2);
        tokio::time::advance(STEP / FACTOR).await;
        assert_eq!(clock.monotonic(), STEP);
        assert!((&mut short).now_or_never().is_some());
        tokio::time::advance(STEP).await;
        assert_eq!(clock.monotonic(), STEP, "the database did not answer");
        assert!((&mut long).now_or_never().is_none());
        answer(&clock);
        assert!((&mut long).now_or_never().is_none());
        tokio::time::advance(STEP / FACTOR).await;
        assert!((&mut long).now_or_never().is_some());
        assert_eq!(clock.monotonic(), STEP * 2);
    }
}
