//! The adopter: ends the proposals that no person decides about.
//!
//! A value whose policy needs no approval is adopted through the door, like any change of its
//! service. If the door refuses it, the proposal is rejected with the reason, and the executor
//! reverts the value. A proposal without a decision in time expires.

use std::sync::Arc;
use std::time::Duration;

use trueup_model::Clock;
use trueup_model::drift::AdoptMode;
use trueup_rules::admit::Refused;
use trueup_rules::drift::decide::adopt_mode;
use trueup_store::door::Refusal;
use trueup_store::{App, Error, Lease, Signals, WaitingProposal, Worker};

use crate::deadline::within;

/// How often proposals are polled.
const POLL: Duration = Duration::from_secs(2);
/// How many proposals are read at once.
const PAGE: usize = 200;

pub(crate) struct Adopter {
    pub(crate) app: App,
    pub(crate) worker: Worker,
    pub(crate) signals: Signals,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) lease: Lease,
}

impl Adopter {
    /// Runs until the lease is lost.
    pub(crate) async fn run(self) {
        loop {
            match self.decide().await {
                Ok(0) => {}
                Ok(_) => {
                    self.signals.wake();
                    self.signals.event();
                }
                Err(Error::Fenced) => return,
                Err(error) => tracing::warn!(%error, "cannot decide about proposals; will retry"),
            }
            self.clock.sleep(POLL).await;
        }
    }

    /// Ends what is due; returns how many proposals ended.
    async fn decide(&self) -> Result<usize, Error> {
        let expiring = self.worker.expire_proposals(self.lease, self.clock.now());
        let mut ended = within(&*self.clock, expiring).await?;
        let mut after = None;
        loop {
            let limit = i64::try_from(PAGE).unwrap_or(i64::MAX);
            let waiting = self.worker.waiting_proposals(self.lease.scope, after, limit);
            let waiting = within(&*self.clock, waiting).await?;
            for proposal in waiting.iter().filter(|it| needs_no_approval(it)) {
                ended += usize::from(self.adopt(proposal).await?);
            }
            after = waiting.last().map(|last| last.id);
            if waiting.len() < PAGE {
                return Ok(ended);
            }
        }
    }

    /// Adopts a value, or rejects it if it cannot be adopted; returns whether the proposal ended.
    async fn adopt(&self, of: &WaitingProposal) -> Result<bool, Error> {
        let now = self.clock.now();
        // Boxed: the future of a write is large.
        let write = Box::pin(self.app.adopt_by_policy(of.org, of.id, of.generation, now));
        let refusal = match within(&*self.clock, async { Ok(write.await) }).await? {
            Ok(()) => return Ok(true),
            Err(Refusal::Store(error)) => return Err(error),
            // The service changed, or the proposal ended: the next report says what stands now.
            Err(Refusal::Changed { .. } | Refusal::Decided { .. } | Refusal::NotFound(_)) => {
                return Ok(false);
            }
            Err(refusal) => refusal,
        };
        let why = sentence(&refusal);
        tracing::debug!(divergence = %of.id, %why, "a policy adopts a value that is refused");
        let rejected = self.worker.reject_proposal(self.lease, of, &why, self.clock.now());
        within(&*self.clock, rejected).await
    }
}

fn needs_no_approval(of: &WaitingProposal) -> bool {
    adopt_mode(&of.policies) == AdoptMode::Automatic
}

/// Why a value was refused.
fn sentence(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Refused(Refused::Invalid(errors)) => {
            let all = errors.iter().map(|error| format!("{}: {}", error.field, error.message));
            all.collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    }
}
