//! A token or session with open streams, and what its last check said.
//!
//! Both are called a token here. A check counts for two seconds. After that a stream of it sends nothing until the next
//! one, so a failed check never lets anything through.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use trueup_model::{Clock, OrgId};
use trueup_store::{Error, LiveCredential, token_hash};

use crate::AppState;
use crate::front::caller::Caller;

/// The interval of token checks, and the longest that one may take.
pub(crate) const REVALIDATE: Duration = Duration::from_secs(1);
/// How long a check counts: the longest that a stream sends something after a revocation.
const TRUSTED: Duration = Duration::from_secs(2);

/// Whether a stream may send something now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenStatus {
    Valid,
    /// The last check is too old: nothing is sent until the next one.
    Stale,
    /// The stream ends.
    Ended(StreamEnd),
}

/// Why a stream ends before its content does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    Expired,
    /// The token was revoked, the session ended, or the role changed.
    Revoked,
    /// The token could not be checked in time.
    Unchecked,
}

impl StreamEnd {
    /// What happened, and what the client can do.
    pub(crate) const fn notice(self) -> &'static str {
        match self {
            Self::Expired => {
                "stream ended: the token has expired; reconnect with another token, or sign in again"
            }
            Self::Revoked => {
                "stream ended: the token was revoked; reconnect with another token, or sign in again"
            }
            Self::Unchecked => {
                "stream ended: the token could not be checked, the database is unavailable; \
                 reconnect in a few seconds"
            }
        }
    }
}

/// What the checks of a token have said so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Validity {
    /// Valid at this time, by the monotonic clock.
    ValidAt(Duration),
    /// No check has succeeded for too long.
    Unchecked,
    /// Not valid any more; this is final.
    Revoked,
}

impl Validity {
    /// After a check that began at this time.
    fn after_check(self, is_valid: bool, began: Duration) -> Self {
        match self {
            Self::Revoked => Self::Revoked,
            Self::ValidAt(_) | Self::Unchecked if !is_valid => Self::Revoked,
            Self::ValidAt(before) => Self::ValidAt(before.max(began)),
            Self::Unchecked => Self::ValidAt(began),
        }
    }

    /// After a check that failed.
    fn after_failure(self, now: Duration) -> Self {
        match self.status(now) {
            TokenStatus::Stale => Self::Unchecked,
            TokenStatus::Valid | TokenStatus::Ended(_) => self,
        }
    }

    fn status(self, now: Duration) -> TokenStatus {
        match self {
            Self::ValidAt(at) if now.saturating_sub(at) < TRUSTED => TokenStatus::Valid,
            Self::ValidAt(_) => TokenStatus::Stale,
            Self::Unchecked => TokenStatus::Ended(StreamEnd::Unchecked),
            Self::Revoked => TokenStatus::Ended(StreamEnd::Revoked),
        }
    }
}

/// A token with open streams, which share it.
pub(crate) struct WatchedToken {
    live: LiveCredential,
    hash: Vec<u8>,
    validity: watch::Sender<Validity>,
}

impl WatchedToken {
    pub(crate) fn new(caller: &Caller) -> Self {
        let validity = watch::Sender::new(Validity::ValidAt(caller.authenticated_at));
        Self { live: caller.live, hash: token_hash(caller.secret()), validity }
    }

    /// Records a check that began at this time.
    pub(crate) fn record(&self, is_valid: bool, began: Duration, clock: &dyn Clock) {
        self.update(clock, |before, _| before.after_check(is_valid, began));
    }

    /// Records a check that failed.
    pub(crate) fn record_failure(&self, clock: &dyn Clock) {
        self.update(clock, Validity::after_failure);
    }

    /// Wakes the streams only if their status changes: usually every check says the same.
    fn update(&self, clock: &dyn Clock, change: impl FnOnce(Validity, Duration) -> Validity) {
        self.validity.send_if_modified(|validity| {
            let (before, now) = (*validity, clock.monotonic());
            *validity = change(before, now);
            validity.status(now) != before.status(now)
        });
    }

    pub(crate) fn follow(&self) -> Follower {
        Follower(self.validity.subscribe())
    }
}

/// One stream's view of the checks of its token.
pub(crate) struct Follower(watch::Receiver<Validity>);

impl Follower {
    /// The status now; [`Self::changed`] waits for a later one.
    pub(crate) fn status(&mut self, clock: &dyn Clock) -> TokenStatus {
        // The time is read first. If a check is recorded in between, it is recorded at a later time
        // than this: it finds the same stale status, and wakes the stream.
        let now = clock.monotonic();
        self.0.borrow_and_update().status(now)
    }

    /// Waits until a check has changed the status.
    pub(crate) async fn changed(&mut self) {
        // The stream keeps the token, and with it the sender.
        let _open = self.0.changed().await;
    }
}

/// A set of tokens with open streams. A token leaves it with its last stream.
#[derive(Debug, Default)]
pub(crate) struct WatchedTokens(BTreeMap<LiveCredential, Weak<WatchedToken>>);

impl WatchedTokens {
    pub(crate) fn insert(&mut self, token: &Arc<WatchedToken>) {
        self.0.insert(token.live, Arc::downgrade(token));
    }

    pub(crate) fn find(&self, caller: &Caller) -> Option<Arc<WatchedToken>> {
        self.0.get(&caller.live).and_then(Weak::upgrade)
    }

    pub(crate) fn all(&mut self) -> Vec<Arc<WatchedToken>> {
        self.0.retain(|_, token| token.strong_count() > 0);
        self.0.values().filter_map(Weak::upgrade).collect()
    }
}

/// Checks tokens with one statement, however many they are, and records the result.
pub(crate) async fn check(state: &AppState, tokens: &[Arc<WatchedToken>]) -> Result<(), Error> {
    if tokens.is_empty() {
        return Ok(());
    }
    let began = state.clock.monotonic();
    let wanted: Vec<(&[u8], OrgId)> =
        tokens.iter().map(|token| (token.hash.as_slice(), token.live.home)).collect();
    let live = state.app.live_credentials(&wanted, state.clock.now()).await?;
    for token in tokens {
        token.record(live.contains(&token.live), began, &*state.clock);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Validity = Validity::ValidAt(Duration::from_secs(10));

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn check_counts_for_two_seconds_from_its_beginning() {
        assert_eq!(START.status(at(11_999)), TokenStatus::Valid);
        assert_eq!(START.status(at(12_000)), TokenStatus::Stale);
        let checked = START.after_check(true, at(11_000));
        assert_eq!(checked.status(at(12_999)), TokenStatus::Valid);
        assert_eq!(checked.status(at(13_000)), TokenStatus::Stale);
        let late = checked.after_check(true, at(10_500));
        assert_eq!(late, checked, "the result of an older check arrived later");
    }

    #[test]
    fn failed_checks_end_a_stream_once_the_last_success_is_too_old() {
        assert_eq!(START.after_failure(at(11_000)), START);
        let ended = START.after_failure(at(12_000));
        assert_eq!(ended.status(at(12_000)), TokenStatus::Ended(StreamEnd::Unchecked));
        assert_eq!(ended.after_failure(at(13_000)), ended);
        let again = ended.after_check(true, at(13_000));
        assert_eq!(again.status(at(13_000)), TokenStatus::Valid);
    }

    #[test]
    fn revocation_is_final() {
        let revoked = START.after_check(false, at(10_500));
        assert_eq!(revoked.status(at(10_500)), TokenStatus::Ended(StreamEnd::Revoked));
        // A check that began before the revocation, and one that failed.
        assert_eq!(revoked.after_check(true, at(10_400)), revoked);
        assert_eq!(revoked.after_failure(at(20_000)), revoked);
        assert_eq!(Validity::Unchecked.after_check(false, at(13_000)), Validity::Revoked);
    }
}
