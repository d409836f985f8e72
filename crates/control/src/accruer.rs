//! The accruer: posts usage to the ledger of each org, at regular intervals.
//!
//! Every replica runs one. The lock of an org's ledger orders them, and an entry is the difference
//! to what is posted, so nothing is posted twice.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use trueup_model::Clock;
use trueup_model::billing::BillingSettings;
use trueup_store::{Error, Worker};

use crate::deadline::within;

/// How often orgs are looked for whose turn has come.
const POLL: Duration = Duration::from_secs(15);

/// The loop that posts usage.
#[derive(Debug)]
pub struct Accruer {
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

    async fn accrue_all(&self) -> Result<(), Error> {
        let every = SignedDuration::try_from(self.settings.accrue_every).unwrap_or_default();
        let now = self.clock.now();
        let due = now.saturating_sub(every).unwrap_or(now);
        let orgs = within(&*self.clock, self.worker.orgs_to_accrue(due)).await?;
        for org in orgs {
            let posted = self.worker.accrue(org, &self.settings, self.clock.now());
            match within(&*self.clock, posted).await {
                Ok(accrued) => tracing::debug!(%org, entries = accrued.entries, "usage posted"),
                Err(error) => tracing::error!(%org, %error, "the usage of an org is not posted"),
            }
        }
        Ok(())
    }
}
