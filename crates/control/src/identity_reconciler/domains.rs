//! Proves domains of providers by DNS checks, as those of services are proved.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::iter;
use trueup_model::domain::DnsResult;
use trueup_rules::admit::domain::judge;
use trueup_store::door::Refusal;
use trueup_store::{DueDnsCheck, Error};

use super::{AT_ONCE, IdentityReconciler};
use crate::deadline::within;
use crate::dns::Indeterminate;

/// The timeout of a DNS check.
const ANSWER: Duration = Duration::from_secs(5);
/// What an org is told whose domain another org has proved: not whose it is.
const CONTESTED: &str = "ownership of the domain could not be decided; ask the operator";

impl IdentityReconciler {
    /// Makes the DNS checks that are due; whether any was.
    pub(super) async fn check_domains(&self) -> Result<bool, Error> {
        let most = i64::try_from(AT_ONCE).unwrap_or(1);
        let claiming = self.worker.claim_provider_domains(most, self.clock.now());
        let due = within(&*self.clock, claiming).await?;
        let checking = iter(&due).for_each_concurrent(AT_ONCE, async |check| {
            if let Err(error) = self.check_domain(check).await {
                tracing::warn!(%error, "cannot record a DNS check; it will be repeated");
            }
        });
        checking.await;
        Ok(!due.is_empty())
    }

    async fn check_domain(&self, check: &DueDnsCheck) -> Result<(), Error> {
        let name = check.host.challenge();
        let answer = tokio::select! {
            answer = self.names.texts(&name) => answer,
            () = self.clock.sleep(ANSWER) => Err(Indeterminate::Silent),
        };
        match answer.map(|texts| judge(&texts, check.domain)) {
            Ok(None) => self.prove(check).await,
            Ok(Some((result, why))) => self.record(check, result, &why).await,
            Err(error) => self.record(check, DnsResult::Indeterminate, &error.to_string()).await,
        }
    }

    async fn record(&self, check: &DueDnsCheck, result: DnsResult, why: &str) -> Result<(), Error> {
        let now = self.clock.now();
        let recording = self.worker.record_provider_dns_check(check, result, why, now);
        within(&*self.clock, recording).await
    }

    async fn prove(&self, check: &DueDnsCheck) -> Result<(), Error> {
        let now = self.clock.now();
        let write = Box::pin(self.app.record_provider_domain(check.org, check.domain, now));
        match within(&*self.clock, async { Ok(write.await) }).await? {
            Ok(_) => {
                self.signals.event();
                Ok(())
            }
            Err(Refusal::Store(error)) => Err(error),
            // Fails closed: the domain stays with the org that proved it first.
            Err(refusal) => {
                tracing::warn!(
                    host = %check.host, claimant = %check.org, %refusal,
                    "DNS proves a provider's domain for an org while another org has it"
                );
                self.record(check, DnsResult::Indeterminate, CONTESTED).await
            }
        }
    }
}
