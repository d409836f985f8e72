//! The reachability recorder: an event when the cluster becomes unreachable, and one when it answers
//! again.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use trueup_model::Clock;
use trueup_store::{Error, Lease, ReachabilityChange, Signals, Worker};

use crate::contact::{Contact, Heard};
use crate::deadline::within;
use crate::metrics::Metrics;

/// How often the last contact is read, in memory.
const EVERY: Duration = Duration::from_secs(1);
/// A cluster is unreachable after this long without a watch event or an answer.
const SILENCE: Duration = Duration::from_secs(30);

pub(crate) struct ReachabilityRecorder {
    pub(crate) worker: Worker,
    pub(crate) signals: Signals,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
    pub(crate) lease: Lease,
    pub(crate) contact: Contact,
}

impl ReachabilityRecorder {
    /// Runs until the lease is lost.
    pub(crate) async fn run(self) {
        let mut unreachable_since = self.read_back().await;
        loop {
            self.metrics.cluster_reachable.set(i64::from(unreachable_since.is_none()));
            let heard = self.contact.heard();
            if let Some(change) = decide(unreachable_since, &heard, self.clock.monotonic()) {
                let now = self.clock.now();
                let recorded = self.worker.record_reachability(self.lease, &change, now);
                match within(&*self.clock, recorded).await {
                    Ok(()) => {
                        unreachable_since = change.unreachable_since();
                        self.signals.event();
                        continue;
                    }
                    Err(Error::Fenced) => return,
                    Err(error) => {
                        tracing::warn!(%error, "cannot record the cluster's reachability; will retry");
                    }
                }
            }
            self.clock.sleep(EVERY).await;
        }
    }

    /// Since when the cluster is unreachable, as recorded by this or an earlier holder.
    async fn read_back(&self) -> Option<Timestamp> {
        loop {
            let known = self.worker.unreachable_since(self.lease.scope);
            match within(&*self.clock, known).await {
                Ok(since) => return since,
                Err(error) => {
                    tracing::debug!(%error, "cannot read the cluster's reachability; will retry");
                }
            }
            self.clock.sleep(EVERY).await;
        }
    }
}

/// The change to record, if there is one: unreachable after a silence, reachable at the first
/// contact.
fn decide(
    unreachable_since: Option<Timestamp>,
    heard: &Heard,
    now: Duration,
) -> Option<ReachabilityChange> {
    let is_silent = now.saturating_sub(heard.since) >= SILENCE;
    match unreachable_since {
        None if is_silent => {
            let why = heard.failure.clone();
            let why = why.unwrap_or_else(|| "it sent nothing, and no call failed".to_owned());
            Some(ReachabilityChange::Unreachable { why, since: heard.at })
        }
        Some(since) if heard.answered && !is_silent => {
            let after = heard.at.duration_since(since).as_secs();
            Some(ReachabilityChange::Reachable { after_s: after.max(0) })
        }
        None | Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn heard(second: u64, answered: bool) -> Heard {
        Heard {
            at: at(i64::try_from(second).unwrap()),
            since: Duration::from_secs(second),
            answered,
            failure: Some("connection refused".to_owned()),
        }
    }

    #[test]
    fn silence_of_thirty_seconds_is_unreachable_and_the_first_contact_reachable() {
        let s = Duration::from_secs;
        let silent = ReachabilityChange::Unreachable {
            why: "connection refused".to_owned(),
            since: at(100),
        };
        for (known, heard, now, expected) in [
            (None, heard(100, true), 129, None),
            (None, heard(100, true), 130, Some(silent.clone())),
            // A new holder that has heard nothing counts from its start.
            (None, heard(100, false), 129, None),
            (None, heard(100, false), 130, Some(silent)),
            // It was recorded before, by this or an earlier holder.
            (Some(at(100)), heard(100, true), 500, None),
            (Some(at(50)), heard(100, false), 101, None),
            (
                Some(at(50)),
                heard(100, true),
                101,
                Some(ReachabilityChange::Reachable { after_s: 50 }),
            ),
        ] {
            assert_eq!(decide(known, &heard, s(now)), expected, "{known:?} {heard:?} {now}");
        }
    }
}
