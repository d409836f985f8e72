//! The sealer: gives recorded events their position and hash once no earlier event can still
//! commit.
//!
//! Any open transaction delays sealing, because one of its events could still come first. Nothing
//! else waits for sealing, but readers see no new events, so a long delay is logged as a warning.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use trueup_model::{Clock, crash};
use trueup_store::{Error, SEALED_AT_ONCE, Signals, Unsealed, Worker};

use crate::deadline::within;
use crate::metrics::Metrics;

/// How long it sleeps without a signal.
const IDLE: Duration = Duration::from_secs(1);
/// The minimum time between two rounds, so that under load one transaction seals many events.
const APART: Duration = Duration::from_millis(50);
/// The first pause while an open transaction blocks sealing; doubled each time.
const STALLED: Duration = Duration::from_millis(20);
/// An unsealed event older than this is logged as a warning.
const ALARM: Duration = Duration::from_secs(10);

/// The loop that seals events.
#[derive(Debug)]
pub struct Sealer {
    /// The database.
    pub worker: Worker,
    /// Signals from and to the other parts of this process.
    pub signals: Signals,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The metrics.
    pub metrics: Metrics,
}

impl Sealer {
    /// Runs for ever.
    pub async fn run(self) {
        let mut alarm = Alarm::default();
        let mut stalled = STALLED;
        loop {
            let next = self.clock.monotonic() + APART;
            let round = self.seal_all().await;
            match &round {
                Ok(round) => self.watch(&mut alarm, round.left),
                Err(error) => tracing::debug!(%error, "cannot seal events; will retry"),
            }
            match round {
                // While sealing is blocked, back off regardless of signals.
                Ok(Round { sealed: 0, left }) if left.count > 0 => {
                    self.clock.sleep(stalled).await;
                    stalled = (stalled * 2).min(IDLE);
                }
                Ok(Round { left, .. }) => {
                    stalled = STALLED;
                    self.pause(if left.count > 0 { STALLED } else { IDLE }).await;
                }
                Err(_) => self.pause(IDLE).await,
            }
            let early = next.saturating_sub(self.clock.monotonic());
            if !early.is_zero() {
                self.clock.sleep(early).await;
            }
        }
    }

    /// Waits for a signal, but not for longer than this.
    async fn pause(&self, longest: Duration) {
        tokio::select! {
            () = self.signals.recorded() => {}
            () = self.clock.sleep(longest) => {}
        }
    }

    /// Seals all events that can be sealed.
    async fn seal_all(&self) -> Result<Round, Error> {
        let mut sealed: usize = 0;
        loop {
            let batch = within(&*self.clock, self.worker.seal_events(self.clock.now())).await?;
            if batch > 0 {
                crash::point("sealer.sealed").await;
                sealed = sealed.saturating_add(batch);
                self.signals.sealed();
            }
            if batch < SEALED_AT_ONCE {
                let left = within(&*self.clock, self.worker.unsealed_events()).await?;
                return Ok(Round { sealed, left });
            }
        }
    }

    /// Measures the lag of sealing, and logs when it becomes too long and when it recovers.
    fn watch(&self, alarm: &mut Alarm, unsealed: Unsealed) {
        let lag = lag(unsealed, self.clock.now());
        self.metrics.unsealed_events.set(unsealed.count);
        self.metrics.seal_lag_seconds.set(lag.as_secs_f64());
        match alarm.update(lag) {
            Some(AlarmChange::Raised) => tracing::warn!(
                lag_seconds = lag.as_secs(),
                waiting = unsealed.count,
                "new events are not sealed and stay invisible: a transaction is open; find the \
                 oldest backend_xid in pg_stat_activity and end that transaction"
            ),
            Some(AlarmChange::Cleared) => {
                tracing::warn!("events are sealed again; no event was lost")
            }
            None => {}
        }
    }
}

/// The result of one round: how many events were sealed, and how many are left.
struct Round {
    sealed: usize,
    left: Unsealed,
}

/// The age of the oldest unsealed event.
fn lag(unsealed: Unsealed, now: Timestamp) -> Duration {
    let age = unsealed.oldest.map(|oldest| now.duration_since(oldest));
    age.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default()
}

/// Whether the lag is too long: each change is reported once.
#[derive(Debug, Default)]
struct Alarm {
    raised: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum AlarmChange {
    Raised,
    Cleared,
}

impl Alarm {
    fn update(&mut self, lag: Duration) -> Option<AlarmChange> {
        let behind = lag > ALARM;
        let changed = behind != self.raised;
        self.raised = behind;
        match (changed, behind) {
            (true, true) => Some(AlarmChange::Raised),
            (true, false) => Some(AlarmChange::Cleared),
            (false, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_alarm_change_is_reported_once() {
        let mut alarm = Alarm::default();
        let turns: Vec<_> = [0, 10, 11, 12, 60, 3, 0, 11]
            .into_iter()
            .map(|seconds| alarm.update(Duration::from_secs(seconds)))
            .collect();
        let (up, down) = (Some(AlarmChange::Raised), Some(AlarmChange::Cleared));
        assert_eq!(turns, [None, None, up, None, None, down, None, Some(AlarmChange::Raised)]);
    }

    #[test]
    fn lag_is_the_age_of_the_oldest_event_and_never_negative() {
        let now = Timestamp::from_second(100).unwrap();
        let waits = |second: Option<i64>| Unsealed {
            count: 1,
            oldest: second.map(|second| Timestamp::from_second(second).unwrap()),
        };
        assert_eq!(lag(waits(Some(88)), now), Duration::from_secs(12));
        assert_eq!(lag(waits(Some(101)), now), Duration::ZERO);
        assert_eq!(lag(waits(None), now), Duration::ZERO);
    }
}
