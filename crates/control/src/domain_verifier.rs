//! The domain verifier: verifies domains by DNS checks.
//!
//! Due checks are claimed from the database, with a limit on concurrent checks in total and per
//! org, so that an unresponsive name server delays no other org. A matching TXT record has the same
//! effect as verification by an operator. A verified domain stays verified when the record is
//! removed; only an operator withdraws a verification.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use trueup_model::domain::DnsResult;
use trueup_model::{Clock, OrgId};
use trueup_rules::admit::domain::judge;
use trueup_store::door::Refusal;
use trueup_store::{App, DueDnsCheck, Error, Signals, Worker};

use crate::deadline::within;
use crate::dns::{Indeterminate, Names};
use crate::metrics::{Ended, Metrics};

/// The timeout of a DNS check.
const ANSWER: Duration = Duration::from_secs(5);
/// The maximum number of concurrent checks.
const AT_ONCE: usize = 8;
/// The maximum number of concurrent checks of one org.
const PER_ORG: usize = 4;
/// The longest sleep: notifications can be lost.
const IDLE: Duration = Duration::from_secs(60);
/// The pause after a database error, and the shortest sleep while another process has due checks.
const AGAIN: Duration = Duration::from_secs(1);

/// The loop that runs DNS checks.
#[derive(Debug, Clone)]
pub struct DomainVerifier {
    /// The database, for due checks.
    pub worker: Worker,
    /// The door, for verified domains.
    pub app: App,
    /// Signals from and to the other parts of this process.
    pub signals: Signals,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The metrics.
    pub metrics: Metrics,
    /// The DNS client.
    pub names: Arc<dyn Names>,
}

impl DomainVerifier {
    /// Runs for ever.
    pub async fn run(self) {
        let mut checks = FuturesUnordered::new();
        let mut busy: BTreeMap<OrgId, usize> = BTreeMap::new();
        loop {
            let pause = match self.claim(checks.len(), &busy).await {
                Ok(due) if due.is_empty() => self.rest().await,
                Ok(due) => {
                    for check in due {
                        *busy.entry(check.org).or_default() += 1;
                        let verifier = self.clone();
                        checks.push(async move {
                            verifier.check(&check).await;
                            check.org
                        });
                    }
                    // More may be due, and there are free slots.
                    if checks.len() < AT_ONCE {
                        continue;
                    }
                    IDLE
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot claim DNS checks; will retry");
                    AGAIN
                }
            };
            tokio::select! {
                Some(org) = checks.next() => free_slot(&mut busy, org),
                () = self.signals.domain_check_requested() => {}
                () = self.clock.sleep(pause) => {}
            }
        }
    }

    /// Claims due checks, as many as there are free slots.
    async fn claim(
        &self,
        taken: usize,
        busy: &BTreeMap<OrgId, usize>,
    ) -> Result<Vec<DueDnsCheck>, Error> {
        let free = i64::try_from(AT_ONCE.saturating_sub(taken)).unwrap_or(0);
        if free == 0 {
            return Ok(Vec::new());
        }
        // Few enough that no org exceeds its limit, not even the busiest.
        let most = busy.values().max().map_or(PER_ORG, |most| PER_ORG.saturating_sub(*most).max(1));
        let full: Vec<OrgId> =
            busy.iter().filter(|(_, count)| **count >= PER_ORG).map(|(org, _)| *org).collect();
        let most = i64::try_from(most).unwrap_or(1);
        let claimed = self.worker.claim_dns_checks(free, most, &full, self.clock.now());
        within(&*self.clock, claimed).await
    }

    /// How long to sleep until the next check is due.
    async fn rest(&self) -> Duration {
        match within(&*self.clock, self.worker.next_dns_check()).await {
            Ok(None) => IDLE,
            Ok(Some(at)) => {
                let until = at.duration_since(self.clock.now());
                // A check that is due and was not claimed is in progress in another process.
                Duration::try_from(until).unwrap_or_default().clamp(AGAIN, IDLE)
            }
            Err(error) => {
                tracing::debug!(%error, "cannot read when the next DNS check is due; will retry");
                AGAIN
            }
        }
    }

    /// Makes one DNS check and records its result.
    async fn check(&self, check: &DueDnsCheck) {
        let name = check.host.challenge();
        let answer = tokio::select! {
            answer = self.names.texts(&name) => answer,
            () = self.clock.sleep(ANSWER) => Err(Indeterminate::Silent),
        };
        let recorded = match answer.map(|texts| judge(&texts, check.domain)) {
            Ok(None) => self.verify(check).await,
            Ok(Some((result, why))) => self.record(check, result, &why).await,
            Err(error) => self.record(check, DnsResult::Indeterminate, &error.to_string()).await,
        };
        match recorded {
            Ok(outcome) => {
                self.metrics.domain_checks.get_or_create(&Ended { outcome }).inc();
            }
            // The commit may have succeeded without an acknowledgement; if not, the next check
            // repeats it.
            Err(error) => tracing::warn!(%error, "cannot record a DNS check; it will be repeated"),
        }
    }

    async fn record(
        &self,
        check: &DueDnsCheck,
        result: DnsResult,
        why: &str,
    ) -> Result<&'static str, Error> {
        let recorded = self.worker.record_dns_check(check, result, why, self.clock.now());
        within(&*self.clock, recorded).await?;
        Ok(result.into_str())
    }

    /// Marks the domain as verified, unless another org has the host.
    async fn verify(&self, check: &DueDnsCheck) -> Result<&'static str, Error> {
        let now = self.clock.now();
        // Boxed: the future of a write is large, and many checks run at once.
        let write = Box::pin(self.app.record_verified_domain(check.org, check.domain, now));
        let verified = async { Ok(write.await) };
        match within(&*self.clock, verified).await? {
            Ok(true) => {
                self.signals.wake();
                self.signals.event();
                Ok("verified")
            }
            Ok(false) => Ok("late"),
            Err(Refusal::Store(error)) => Err(error),
            Err(refusal) => self.contest(check, &refusal).await,
        }
    }

    /// Fails closed: the host stays with its org. Only operators are informed, not the claimant.
    async fn contest(&self, check: &DueDnsCheck, refusal: &Refusal) -> Result<&'static str, Error> {
        let recorded = self.worker.note_contested(check, self.clock.now());
        if within(&*self.clock, recorded).await? {
            tracing::warn!(
                host = %check.host, claimant = %check.org, %refusal,
                "DNS verifies a host for an org while another org has it; if its owner changed, \
                 withdraw it from the other org with \
                 `trueup domain verify HOST --service NAME --withdraw`"
            );
            self.signals.event();
        }
        Ok("contested")
    }
}

/// Frees the slot of a check that ended.
fn free_slot(busy: &mut BTreeMap<OrgId, usize>, org: OrgId) {
    if let Some(count) = busy.get_mut(&org) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            busy.remove(&org);
        }
    }
}
