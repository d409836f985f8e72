//! The sealer: puts recorded events in order, as soon as nothing can come before them any more.
//!
//! A transaction that stays open, whoever's it is, holds sealing up: an event of it could still come
//! first. Nothing else waits for that, but readers see nothing new, so it raises an alarm.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use trueup_model::{Clock, crash};
use trueup_store::{Error, SEALED_AT_ONCE, Signals, Unsealed, Worker};

use crate::deadline::within;
use crate::metrics::Metrics;

/// How long it sleeps when nobody calls.
const IDLE: Duration = Duration::from_secs(1);
/// How far two rounds are apart at least, so that under load one transaction seals many.
const APART: Duration = Duration::from_millis(50);
/// How long it waits for a slower transaction to end; twice as long each time that it finds nothing.
const FENCED: Duration = Duration::from_millis(20);
/// From which age of an unsealed event on somebody should look.
const ALARM: Duration = Duration::from_secs(10);

/// The loop that seals events.
#[derive(Debug)]
pub struct Sealer {
    /// The database.
    pub worker: Worker,
    /// Who calls, and whom to tell.
    pub signals: Signals,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Counters.
    pub metrics: Metrics,
}

impl Sealer {
    /// Seals for ever.
    pub async fn run(self) {
        let mut alarm = Alarm::default();
        let mut stalled = FENCED;
        loop {
            let next = self.clock.monotonic() + APART;
            let round = self.seal_all().await;
            match &round {
                Ok(round) => self.watch(&mut alarm, round.left),
                Err(error) => tracing::debug!(%error, "events cannot be sealed now"),
            }
            match round {
                // A backlog that cannot move is looked at less and less, whoever calls.
                Ok(Round { sealed: 0, left }) if left.count > 0 => {
                    self.clock.sleep(stalled).await;
                    stalled = (stalled * 2).min(IDLE);
                }
                Ok(Round { left, .. }) => {
                    stalled = FENCED;
                    self.pause(if left.count > 0 { FENCED } else { IDLE }).await;
                }
                Err(_) => self.pause(IDLE).await,
            }
            let early = next.saturating_sub(self.clock.monotonic());
            if !early.is_zero() {
                self.clock.sleep(early).await;
            }
        }
    }

    /// Waits until somebody calls, but not for longer than this.
    async fn pause(&self, longest: Duration) {
        tokio::select! {
            () = self.signals.recorded() => {}
            () = self.clock.sleep(longest) => {}
        }
    }

    /// Seals what can be sealed.
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

    /// Notes how far sealing is behind, and says when that begins and ends to be too far.
    fn watch(&self, alarm: &mut Alarm, unsealed: Unsealed) {
        let lag = lag(unsealed, self.clock.now());
        self.metrics.unsealed_events.set(unsealed.count);
        self.metrics.seal_lag_seconds.set(lag.as_secs_f64());
        match alarm.hear(lag) {
            Some(Turn::Raised) => tracing::warn!(
                lag_seconds = lag.as_secs(),
                waiting = unsealed.count,
                "events are not sealed: some transaction stays open and nobody sees new events; find \
                 it in pg_stat_activity by the oldest backend_xid and end it"
            ),
            Some(Turn::Over) => tracing::warn!("events are sealed again; nothing was lost"),
            None => {}
        }
    }
}

/// What one round did: how many events got their place, and what still waits.
struct Round {
    sealed: usize,
    left: Unsealed,
}

/// The age of the oldest event that waits.
fn lag(unsealed: Unsealed, now: Timestamp) -> Duration {
    let age = unsealed.oldest.map(|oldest| now.duration_since(oldest));
    age.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default()
}

/// Whether sealing is known to be too far behind: each turn is told once.
#[derive(Debug, Default)]
struct Alarm {
    raised: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Turn {
    Raised,
    Over,
}

impl Alarm {
    fn hear(&mut self, lag: Duration) -> Option<Turn> {
        let behind = lag > ALARM;
        let turned = behind != self.raised;
        self.raised = behind;
        match (turned, behind) {
            (true, true) => Some(Turn::Raised),
            (true, false) => Some(Turn::Over),
            (false, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_turn_is_told_once() {
        let mut alarm = Alarm::default();
        let turns: Vec<_> = [0, 10, 11, 12, 60, 3, 0, 11]
            .into_iter()
            .map(|seconds| alarm.hear(Duration::from_secs(seconds)))
            .collect();
        let (up, down) = (Some(Turn::Raised), Some(Turn::Over));
        assert_eq!(turns, [None, None, up, None, None, down, None, Some(Turn::Raised)]);
    }

    #[test]
    fn lag_is_the_age_of_the_oldest_and_never_negative() {
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
