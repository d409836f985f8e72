//! The accruer: posts usage to the ledger of each org, at regular intervals, applies the limits of
//! subscriptions that begin, and pauses the services of an org whose budget or balance is spent.
//!
//! Every replica runs one. The lock of an org's ledger orders them, and an entry is the difference
//! to what is posted, so nothing is posted twice.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use trueup_model::billing::BillingSettings;
use trueup_model::{Clock, OrgId, ProjectId};
use trueup_store::door::Refusal;
use trueup_store::{App, Error, Signals, Worker};

use crate::deadline::within;

/// How often orgs are looked for whose turn has come.
const POLL: Duration = Duration::from_secs(15);

/// The loop that posts usage.
#[derive(Debug)]
pub struct Accruer {
    /// Pauses services whose budget is spent.
    pub app: App,
    /// Notified when services were paused.
    pub signals: Signals,
    /// The database.
    pub worker: Worker,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// How often usage is posted, and how it is charged.
    pub settings: Arc<BillingSettings>,
}

impl Accruer {
    /// Runs for ever. An org that cannot be billed does not stop the others.
    pub async fn run(self) {
        loop {
            if let Err(error) = self.accrue_all().await {
                tracing::warn!(%error, "cannot post usage to the ledger; will retry");
            }
            self.clock.sleep(POLL).await;
        }
    }

    /// Pauses every running service of an org, or of a project, whose budget is spent.
    async fn pause_all(&self, org: OrgId, of: Option<ProjectId>) -> Result<(), Error> {
        let running = within(&*self.clock, self.worker.running_services(org, of)).await?;
        for (project, service) in running {
            let now = self.clock.now();
            // Boxed: the future of a write is large.
            let pausing = Box::pin(self.app.pause_over_budget(org, (&project, &service), now));
            match within(&*self.clock, async { Ok(pausing.await) }).await? {
                Ok(_) => self.signals.wake(),
                Err(Refusal::Store(error)) => return Err(error),
                // It is being deleted, or cannot be paused, as a job.
                Err(refusal) => tracing::debug!(%org, service, %refusal, "a service is not paused"),
            }
        }
        self.signals.event();
        Ok(())
    }

    async fn accrue_all(&self) -> Result<(), Error> {
        let every = SignedDuration::try_from(self.settings.accrue_every).unwrap_or_default();
        let now = self.clock.now();
        let due = now.saturating_sub(every).unwrap_or(now);
        for org in within(&*self.clock, self.worker.orgs_to_limit(now)).await? {
            if within(&*self.clock, self.worker.apply_limits(org, now)).await? {
                self.signals.event();
            }
        }
        let orgs = within(&*self.clock, self.worker.orgs_to_accrue(due)).await?;
        for org in orgs {
            let posted = self.worker.accrue(org, &self.settings, self.clock.now());
            match within(&*self.clock, posted).await {
                Ok(accrued) => {
                    tracing::debug!(%org, entries = accrued.entries, "usage posted");
                    for scope in accrued.paused {
                        self.pause_all(org, scope).await?;
                    }
                }
                Err(error) => tracing::error!(%org, %error, "the usage of an org is not posted"),
            }
        }
        Ok(())
    }
}
