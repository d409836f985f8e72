//! Passwords: checked with bounded work, and always with the same work.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use trueup_api::Code;
use trueup_model::secret::SecretValue;
use trueup_rules::admit::FieldError;
use trueup_rules::password::{self, Cost, HashError, MAX_PASSWORD};
use trueup_store::new_salt;
use zxcvbn::{Score, zxcvbn};

use crate::front::problem::{Answer, Failure};

/// Hashes that are computed at once: each takes 19 MiB and a core for some hundredths of a second.
const AT_ONCE: usize = 2;
/// Hashes that may wait.
const WAITING: usize = 64;

/// The score of zxcvbn that a password needs: safe from guessing at some thousand tries a second.
const STRONG: Score = Score::Three;
/// The fewest characters of a password.
const SHORTEST: usize = 10;

/// Why a new password is not accepted. `known` is what an attacker guesses first: the name and the address.
pub(crate) fn weakness(password: &SecretValue, known: &[&str]) -> Option<FieldError> {
    let text = password.reveal();
    let message = if text.chars().count() < SHORTEST {
        format!("must have at least {SHORTEST} characters")
    } else if text.len() > MAX_PASSWORD {
        format!("must have at most {MAX_PASSWORD} bytes")
    } else if zxcvbn(text, known).score() < STRONG {
        "is too easy to guess; use a sentence of several unusual words, or let a password manager \
         create it"
            .to_owned()
    } else {
        return None;
    };
    Some(FieldError { field: "password".to_owned(), message })
}

/// Computes and checks hashes of passwords. Clones share the limit.
#[derive(Clone)]
pub struct Passwords(Arc<Shared>);

struct Shared {
    slots: Arc<Semaphore>,
    queue: Semaphore,
    cost: Cost,
    /// What is checked for an address without an account, so that both cost the same.
    nobody: String,
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passwords").finish_non_exhaustive()
    }
}

impl Passwords {
    /// With this cost of a hash.
    ///
    /// # Errors
    /// The cost is not valid.
    pub fn new(cost: Cost) -> Result<Self, HashError> {
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        let queue = Semaphore::new(WAITING.saturating_add(AT_ONCE));
        let nobody = password::hash("", &[0; 16], cost)?;
        Ok(Self(Arc::new(Shared { slots, queue, cost, nobody })))
    }

    /// Whether a password has this hash; false for an address without an account.
    pub(crate) async fn verify(
        &self,
        password: SecretValue,
        stored: Option<String>,
    ) -> Answer<bool> {
        let is_known = stored.is_some();
        let stored = stored.unwrap_or_else(|| self.0.nobody.clone());
        let same = self.work(move || password::verify(password.reveal(), &stored)).await?;
        Ok(same && is_known)
    }

    /// The hash of a new password.
    pub(crate) async fn hash(&self, password: SecretValue) -> Answer<String> {
        let (salt, cost) = (new_salt(), self.0.cost);
        let hashed = self.work(move || password::hash(password.reveal(), &salt, cost)).await?;
        hashed.map_err(|error| {
            tracing::error!(%error, "cannot hash a password");
            Failure::new(Code::Internal, "a bug in Trueup; report it with the trace id")
        })
    }

    /// Runs one computation in a slot, outside of the threads that answer requests.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Answer<T> {
        let busy =
            |_| Failure::new(Code::TooBusy, "too many sign-ins in flight; retry in a few seconds");
        let _queued = self.0.queue.try_acquire().map_err(busy)?;
        // The semaphore is never closed, so acquiring cannot fail.
        let slot: Option<OwnedSemaphorePermit> =
            Arc::clone(&self.0.slots).acquire_owned().await.ok();
        let working = tokio::task::spawn_blocking(move || {
            // Kept until the work ends, also if its request is gone by then.
            let _slot = slot;
            work()
        });
        working.await.map_err(|error| {
            tracing::error!(%error, "checking a password failed");
            Failure::new(Code::Internal, "a bug in Trueup; report it with the trace id")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_password_that_withstands_guessing_is_accepted() {
        let known = ["ada@example.com", "Ada Lovelace"];
        let weak = |password: &str| weakness(&password.to_owned().into(), &known).is_some();
        for bad in [
            "",
            "short",
            "password12",
            "aaaaaaaaaaaaaaaa",
            "qwertyuiop12",
            "ada@example.com",
            "abcdefghijkl",
            &"x".repeat(2000),
        ] {
            assert!(weak(bad), "{bad:.20}");
        }
        for good in ["correct horse battery staple", "Vq7#mT2p!xR9", "зелёный чайник поёт ночью"]
        {
            assert!(!weak(good), "{good}");
        }
    }
}
