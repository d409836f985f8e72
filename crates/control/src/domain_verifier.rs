//! The prover: looks into DNS for the proofs of hosts.
//!
//! Looks are taken from the database when they are due, a few at once and fewer of one org: a name server
//! that does not answer holds up nobody else. A proof that is there has the same effect as an operator
//! who says so. What is proved stays proved when its record goes: the operator takes proofs back.

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

/// How long DNS has to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How many looks are under way at once.
const AT_ONCE: usize = 8;
/// How many of them may be one org's.
const OF_ONE: usize = 4;
/// How long it sleeps at most: notifications can be lost.
const IDLE: Duration = Duration::from_secs(60);
/// Until the database is asked again that did not answer, and for what others are looking at.
const AGAIN: Duration = Duration::from_secs(1);

/// The loop that looks for proofs.
#[derive(Debug, Clone)]
pub struct DomainVerifier {
    /// The database, for what is due.
    pub worker: Worker,
    /// The door, for what is proved.
    pub app: App,
    /// Who calls, and whom to tell.
    pub signals: Signals,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Counters.
    pub metrics: Metrics,
    /// Who asks DNS.
    pub names: Arc<dyn Names>,
}

impl DomainVerifier {
    /// Looks for ever.
    pub async fn run(self) {
        let mut looks = FuturesUnordered::new();
        let mut busy: BTreeMap<OrgId, usize> = BTreeMap::new();
        loop {
            let pause = match self.claim(looks.len(), &busy).await {
                Ok(due) if due.is_empty() => self.rest().await,
                Ok(due) => {
                    for look in due {
                        *busy.entry(look.org).or_default() += 1;
                        let prover = self.clone();
                        looks.push(async move {
                            prover.look(&look).await;
                            look.org
                        });
                    }
                    // There may be more, for as long as there are places.
                    if looks.len() < AT_ONCE {
                        continue;
                    }
                    IDLE
                }
                Err(error) => {
                    tracing::debug!(%error, "looks that are due cannot be read now");
                    AGAIN
                }
            };
            tokio::select! {
                Some(org) = looks.next() => leave(&mut busy, org),
                () = self.signals.domain_check_requested() => {}
                () = self.clock.sleep(pause) => {}
            }
        }
    }

    /// Takes what is due, as far as there are places for it.
    async fn claim(
        &self,
        taken: usize,
        busy: &BTreeMap<OrgId, usize>,
    ) -> Result<Vec<DueDnsCheck>, Error> {
        let free = i64::try_from(AT_ONCE.saturating_sub(taken)).unwrap_or(0);
        if free == 0 {
            return Ok(Vec::new());
        }
        // So few that nobody gets more than its share, whoever has the most already.
        let most = busy.values().max().map_or(OF_ONE, |most| OF_ONE.saturating_sub(*most).max(1));
        let full: Vec<OrgId> =
            busy.iter().filter(|(_, count)| **count >= OF_ONE).map(|(org, _)| *org).collect();
        let most = i64::try_from(most).unwrap_or(1);
        let claimed = self.worker.claim_dns_checks(free, most, &full, self.clock.now());
        within(&*self.clock, claimed).await
    }

    /// How long nothing is due.
    async fn rest(&self) -> Duration {
        match within(&*self.clock, self.worker.next_dns_check()).await {
            Ok(None) => IDLE,
            Ok(Some(at)) => {
                let until = at.duration_since(self.clock.now());
                // What is due and was not given is looked at by somebody right now.
                Duration::try_from(until).unwrap_or_default().clamp(AGAIN, IDLE)
            }
            Err(error) => {
                tracing::debug!(%error, "nobody knows when the next look is due");
                AGAIN
            }
        }
    }

    /// Asks DNS for one proof, and writes down what it says.
    async fn look(&self, look: &DueDnsCheck) {
        let name = look.host.challenge();
        let answer = tokio::select! {
            answer = self.names.texts(&name) => answer,
            () = self.clock.sleep(ANSWER) => Err(Indeterminate::Silent),
        };
        let noted = match answer.map(|texts| judge(&texts, look.domain)) {
            Ok(None) => self.prove(look).await,
            Ok(Some((result, why))) => self.note(look, result, &why).await,
            Err(doubt) => self.note(look, DnsResult::Indeterminate, &doubt.to_string()).await,
        };
        match noted {
            Ok(outcome) => {
                self.metrics.domain_checks.get_or_create(&Ended { outcome }).inc();
            }
            // It may have been written down all the same; if not, the next look finds it again.
            Err(error) => tracing::warn!(%error, "what DNS says cannot be written down now"),
        }
    }

    async fn note(
        &self,
        look: &DueDnsCheck,
        result: DnsResult,
        why: &str,
    ) -> Result<&'static str, Error> {
        let noted = self.worker.record_dns_check(look, result, why, self.clock.now());
        within(&*self.clock, noted).await?;
        Ok(result.as_str())
    }

    /// Proves the host to be the org's, unless it is another's.
    async fn prove(&self, look: &DueDnsCheck) -> Result<&'static str, Error> {
        let now = self.clock.now();
        let proving = async { Ok(self.app.prove_domain(look.org, look.domain, now).await) };
        match within(&*self.clock, proving).await? {
            Ok(true) => {
                self.signals.wake();
                self.signals.event();
                Ok("proved")
            }
            Ok(false) => Ok("late"),
            Err(Refusal::Store(error)) => Err(error),
            Err(refusal) => self.contest(look, &refusal).await,
        }
    }

    /// Fails closed: the host stays where it is, its org learns of nothing, and operators do.
    async fn contest(&self, look: &DueDnsCheck, refusal: &Refusal) -> Result<&'static str, Error> {
        let noted = self.worker.note_contested(look, self.clock.now());
        if within(&*self.clock, noted).await? {
            tracing::warn!(
                host = %look.host, claimant = %look.org, %refusal,
                "DNS proves a host to be an org's that another org has; if it changed hands, take it from the \
                 one with `trueup domain verify HOST --service NAME --withdraw`"
            );
            self.signals.event();
        }
        Ok("contested")
    }
}

/// Frees the place of a look that ended.
fn leave(busy: &mut BTreeMap<OrgId, usize>, org: OrgId) {
    if let Some(count) = busy.get_mut(&org) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            busy.remove(&org);
        }
    }
}
