//! The identity reconciler: asks identity providers whether they still vouch for the people who signed in with them.
//!
//! Due confirmations are claimed from the database, so every replica may run one. Whoever is gone at the provider, or
//! in no group with a role, loses what the provider gave them at once. A provider that cannot be asked says nothing:
//! nobody is removed, and the sessions that it began end by themselves when they were not confirmed for too long.

mod domains;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::iter;
use jiff::SignedDuration;
use trueup_model::Clock;
use trueup_model::provider::{DueConfirmation, IdentityEnd, ProviderError};
use trueup_oidc::Client;
use trueup_rules::envelope::Encryptor;
use trueup_store::door::Refusal;
use trueup_store::{App, Error, Signals, Worker};

use crate::deadline::within;
use crate::dns::Names;

/// The maximum number of concurrent confirmations.
const AT_ONCE: usize = 8;
/// The longest sleep: notifications can be lost.
const IDLE: Duration = Duration::from_secs(60);
/// The shortest sleep.
const PAUSE: Duration = Duration::from_secs(1);
/// The timeout of one confirmation: three requests.
const ANSWER: Duration = Duration::from_secs(30);
/// When a provider that could not be asked is asked again: well before anybody's sessions end.
const AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// The loop that confirms people.
#[derive(Debug, Clone)]
pub struct IdentityReconciler {
    /// The database, for due confirmations.
    pub worker: Worker,
    /// The door, for what providers say.
    pub app: App,
    /// Signals from and to the other parts of this process.
    pub signals: Signals,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Asks providers.
    pub providers: Arc<Client>,
    /// Encrypts new refresh tokens.
    pub encryptor: Encryptor,
    /// The DNS client, for domains of providers.
    pub names: Arc<dyn Names>,
}

impl IdentityReconciler {
    /// Runs for ever.
    pub async fn run(self) {
        loop {
            let pause = match self.pass().await {
                Ok(true) => continue,
                Ok(false) => self.rest().await,
                Err(error) => {
                    tracing::debug!(%error, "cannot read who is to be confirmed; will retry");
                    PAUSE
                }
            };
            tokio::select! {
                () = self.signals.provider_check_requested() => {}
                () = self.clock.sleep(pause) => {}
            }
        }
    }

    /// Does what is due; whether anything was.
    async fn pass(&self) -> Result<bool, Error> {
        let most = i64::try_from(AT_ONCE).unwrap_or(1);
        let claiming = self.worker.claim_confirmations(most, self.clock.now());
        let due = within(&*self.clock, claiming).await?;
        let confirming = iter(&due).for_each_concurrent(AT_ONCE, async |one| {
            // The commit may have succeeded without an acknowledgement; if not, the next confirmation repeats it.
            if let Err(error) = self.confirm(one).await {
                tracing::warn!(%error, "cannot record a confirmation; it will be repeated");
            }
        });
        confirming.await;
        let checked = self.check_domains().await?;
        Ok(!due.is_empty() || checked)
    }

    /// How long to sleep until something is due.
    async fn rest(&self) -> Duration {
        match within(&*self.clock, self.worker.next_confirmation()).await {
            Ok(Some(at)) => {
                let until = at.duration_since(self.clock.now());
                Duration::try_from(until).unwrap_or_default().clamp(PAUSE, IDLE)
            }
            Ok(None) => IDLE,
            Err(error) => {
                tracing::debug!(%error, "cannot read when somebody is due; will retry");
                PAUSE
            }
        }
    }

    async fn confirm(&self, due: &DueConfirmation) -> Result<(), Error> {
        if due.refresh_token.is_none() {
            let why = "the provider gave no refresh token, and the person did not sign in again";
            return self.end(due, IdentityEnd::Unconfirmed, why).await;
        }
        let answer = tokio::select! {
            answer = self.providers.confirm(due) => answer,
            () = self.clock.sleep(ANSWER) => {
                let why = format!("no answer within {} seconds", ANSWER.as_secs());
                Err(ProviderError::Unavailable(why))
            }
        };
        let (org, now) = (due.connection.org, self.clock.now());
        match answer {
            Ok(claims) => {
                let (identity, encryptor) = (due.identity, &self.encryptor);
                // Boxed: the future of a write is large, and several run at once.
                let confirmed =
                    Box::pin(self.app.confirm_identity(org, identity, &claims, encryptor, now));
                let ended = self.written(confirmed).await?.flatten();
                if let Some(reason) = ended {
                    tracing::info!(%org, identity = %due.identity, %reason, "an identity has ended");
                }
                self.signals.event();
                Ok(())
            }
            Err(ProviderError::Refused(why)) => self.end(due, IdentityEnd::Refused, &why).await,
            // What must not be believed is no reason to remove anybody, either.
            Err(ProviderError::Unavailable(why) | ProviderError::NotValid(why)) => {
                let noting = self.worker.note_provider_failure(due, &why, AGAIN, now);
                if within(&*self.clock, noting).await? {
                    tracing::warn!(%org, provider = %due.connection.provider, why,
                        "an identity provider cannot be asked; sessions end when they are not confirmed in time");
                    self.signals.event();
                }
                Ok(())
            }
        }
    }

    async fn end(
        &self,
        due: &DueConfirmation,
        reason: IdentityEnd,
        why: &str,
    ) -> Result<(), Error> {
        let (org, now) = (due.connection.org, self.clock.now());
        let ending = Box::pin(self.app.end_identity(org, due.identity, reason, why, now));
        if self.written(ending).await? == Some(true) {
            tracing::info!(%org, identity = %due.identity, %reason, "an identity has ended");
            self.signals.event();
        }
        Ok(())
    }

    /// The result of a write; none if it was refused because of what happened meanwhile.
    async fn written<T>(
        &self,
        write: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<Option<T>, Error> {
        match within(&*self.clock, async { Ok(write.await) }).await? {
            Ok(value) => Ok(Some(value)),
            Err(Refusal::Store(error)) => Err(error),
            Err(refusal) => {
                tracing::warn!(%refusal, "what a provider says cannot be recorded");
                Ok(None)
            }
        }
    }
}
