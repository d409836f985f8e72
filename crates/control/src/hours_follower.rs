//! The hours follower: pauses and resumes services at the edges of their active hours.
//!
//! It sleeps until the next edge of any service of its cluster, and looks again after a while, because
//! hours are changed by requests and clocks are set. What is due is decided by the hours at that
//! moment, however late it is: edges that were missed while no process ran are not made up for one by
//! one.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use trueup_model::id::{OrgId, ServiceId};
use trueup_model::{Clock, ClusterId};
use trueup_store::door::Refusal;
use trueup_store::{App, Error, Signals, Worker};

use crate::deadline::within;

/// The longest sleep: how late the first edge of new hours, or one after a jump of the clock, may be.
const LONGEST: Duration = Duration::from_secs(15);
/// Clocks that are set back by less cause no edge that matters.
const JUMP: SignedDuration = SignedDuration::from_secs(5);
/// How many services are turned before the next look.
const PAGE: i64 = 200;

pub(crate) struct HoursFollower {
    pub(crate) app: App,
    pub(crate) worker: Worker,
    pub(crate) signals: Signals,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) cluster: ClusterId,
}

impl HoursFollower {
    /// Runs until it is dropped with the lease.
    pub(crate) async fn run(self) {
        // The clock may have been set back before this process started.
        let mut armed = false;
        let mut before = self.clock.now();
        loop {
            let now = self.clock.now();
            armed &= now.duration_since(before) > -JUMP;
            before = now;
            match self.follow(armed, now).await {
                Ok(()) => armed = true,
                Err(error) => tracing::warn!(%error, "cannot follow active hours; will retry"),
            }
            let sleep = self.sleep_for().await.unwrap_or(LONGEST);
            self.clock.sleep(sleep).await;
        }
    }

    /// Turns what is due.
    async fn follow(&self, armed: bool, now: Timestamp) -> Result<(), Error> {
        if !armed {
            let moved =
                within(&*self.clock, self.worker.rearm_schedules(self.cluster, now)).await?;
            tracing::debug!(cluster = %self.cluster, moved, "alarms of active hours checked");
        }
        let due = self.worker.due_schedules(self.cluster, now, PAGE);
        for (org, service) in within(&*self.clock, due).await? {
            self.turn(org, service).await?;
        }
        Ok(())
    }

    async fn turn(&self, org: OrgId, service: ServiceId) -> Result<(), Error> {
        let now = self.clock.now();
        // Boxed: the future of a write is large.
        let turning = Box::pin(self.app.follow_hours(org, service, now));
        match within(&*self.clock, async { Ok(turning.await) }).await? {
            Ok(None) => return Ok(()),
            Ok(Some(turn)) => {
                tracing::debug!(%service, %turn, "a service follows its active hours")
            }
            Err(Refusal::Store(error)) => return Err(error),
            Err(refusal) => {
                let why = refusal.to_string();
                tracing::warn!(%service, why, "a service cannot follow its active hours");
                let refusing = Box::pin(self.app.refuse_hours(org, service, &why, now));
                match within(&*self.clock, async { Ok(refusing.await) }).await? {
                    Ok(()) => {}
                    Err(Refusal::Store(error)) => return Err(error),
                    Err(refusal) => {
                        tracing::error!(%service, %refusal, "a refusal is not recorded")
                    }
                }
            }
        }
        self.signals.wake();
        self.signals.event();
        Ok(())
    }

    /// The time until the next edge.
    async fn sleep_for(&self) -> Result<Duration, Error> {
        let next = within(&*self.clock, self.worker.next_schedule(self.cluster)).await?;
        let left = next.map(|next| next.duration_since(self.clock.now()));
        // A refusal that was not recorded is tried again, but not in a tight loop.
        let least = Duration::from_millis(100);
        Ok(left.map_or(LONGEST, |left| {
            Duration::try_from(left).unwrap_or(least).clamp(least, LONGEST)
        }))
    }
}
