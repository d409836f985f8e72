//! The closer: invoices the billing period of each org once it is over.
//!
//! Every replica runs one. The lock of an org's ledger orders them, and the second one finds nothing
//! left to invoice. Usage that arrives later is a correction on the next invoice.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use trueup_model::billing::BillingSettings;
use trueup_model::{Clock, OrgId};
use trueup_store::door::{InvoiceRequest, Refusal};
use trueup_store::{App, Error, Signals, Worker};

use crate::deadline::within;

/// How often ended periods are looked for.
const POLL: Duration = Duration::from_secs(60);

/// The loop that issues invoices.
#[derive(Debug)]
pub struct Closer {
    /// Issues the invoices.
    pub app: App,
    /// Finds the periods.
    pub worker: Worker,
    /// Notified when there is an event to seal.
    pub signals: Signals,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// How long after its end a period is invoiced, and what invoices say.
    pub settings: Arc<BillingSettings>,
}

impl Closer {
    /// Runs for ever. An org that cannot be invoiced does not stop the others.
    pub async fn run(self) {
        loop {
            if let Err(error) = self.close_all().await {
                tracing::warn!(%error, "cannot close billing periods; will retry");
            }
            self.clock.sleep(POLL).await;
        }
    }

    async fn close_all(&self) -> Result<(), Error> {
        let grace = SignedDuration::try_from(self.settings.invoice_after).unwrap_or_default();
        let now = self.clock.now();
        let before = now.saturating_sub(grace).unwrap_or(now);
        let periods = within(&*self.clock, self.worker.periods_to_close(before)).await?;
        for (org, around) in periods {
            self.close(org, around).await?;
        }
        Ok(())
    }

    async fn close(&self, org: OrgId, around: Timestamp) -> Result<(), Error> {
        let wanted = InvoiceRequest { around, early: false };
        // Boxed: the future of a write is large.
        let closing =
            Box::pin(self.app.close_period(org, wanted, &self.settings, self.clock.now()));
        match within(&*self.clock, async { Ok(closing.await) }).await? {
            Ok(issued) => {
                let number = &issued.row.document.number;
                tracing::info!(%org, %number, "invoice issued");
                self.signals.event();
            }
            Err(Refusal::Store(error)) => {
                tracing::error!(%org, %error, "a billing period is not invoiced");
            }
            // Another replica was faster, or what was used costs nothing.
            Err(refusal) => tracing::debug!(%org, %refusal, "nothing to invoice"),
        }
        Ok(())
    }
}
