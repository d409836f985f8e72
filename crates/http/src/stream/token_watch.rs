//! One check per second of all tokens with open streams, however many streams there are.
//!
//! The checker is a task of its own: if a stream checked for the others, one that is not being
//! polled could block all of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trueup_model::Clock;
use trueup_model::clock::Sleep;

use crate::AppState;
use crate::front::caller::Caller;
use crate::stream::watched_token::{
    Follower, REVALIDATE, StreamEnd, TokenStatus, WatchedToken, WatchedTokens, check,
};

/// The checker of this process. It runs while a stream is open. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct TokenWatch(Arc<Mutex<Weak<Checker>>>);

impl TokenWatch {
    /// The token of a new stream, checked from now on.
    pub(crate) fn join(&self, state: &AppState, caller: &Caller) -> StreamToken {
        let checker = self.checker(state);
        let token = checker.shared.enter(caller, &*state.clock);
        let expires_at = caller.ends_at;
        let until = |at: Timestamp| at.duration_since(state.clock.now());
        let sleep = |at| state.clock.sleep(Duration::try_from(until(at)).unwrap_or_default());
        StreamToken {
            follower: token.follow(),
            token,
            expires_at,
            expiry: expires_at.map(sleep),
            clock: Arc::clone(&state.clock),
            checker,
        }
    }

    /// The running checker, started if necessary.
    fn checker(&self, state: &AppState) -> Arc<Checker> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match running.upgrade().filter(|checker| !checker.shared.ended.is_cancelled()) {
            Some(checker) => checker,
            None => {
                let checker = Arc::new(Checker::start(state.clone()));
                *running = Arc::downgrade(&checker);
                checker
            }
        }
    }
}

/// The task that checks the tokens. It stops when the last stream drops it.
struct Checker {
    shared: Arc<Shared>,
    _task: JoinSet<()>,
}

impl Checker {
    fn start(state: AppState) -> Self {
        let shared = Arc::new(Shared { tokens: Mutex::default(), ended: CancellationToken::new() });
        // The tokens of the first streams were authenticated just now.
        let first = state.clock.monotonic().saturating_add(REVALIDATE);
        let mut task = JoinSet::new();
        task.spawn(Arc::clone(&shared).run(state, first));
        Self { shared, _task: task }
    }
}

struct Shared {
    tokens: Mutex<WatchedTokens>,
    /// Cancelled at shutdown, or when the checker panicked.
    ended: CancellationToken,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, WatchedTokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the token of a new stream. Its authentication counts as a check.
    fn enter(&self, caller: &Caller, clock: &dyn Clock) -> Arc<WatchedToken> {
        let mut tokens = self.lock();
        let token = tokens.find(caller).unwrap_or_else(|| {
            let token = Arc::new(WatchedToken::new(caller));
            tokens.insert(&token);
            token
        });
        drop(tokens);
        token.record(true, caller.authenticated_at, clock);
        token
    }

    /// Begins a check every [`REVALIDATE`], the first at this time.
    async fn run(self: Arc<Self>, state: AppState, first: Duration) {
        let _ended = self.ended.clone().drop_guard();
        let mut due = first;
        loop {
            let wait = due.saturating_sub(state.clock.monotonic());
            tokio::select! {
                () = state.stop.cancelled() => return,
                () = state.clock.sleep(wait) => {}
            }
            due = state.clock.monotonic().saturating_add(REVALIDATE);
            self.check(&state).await;
        }
    }

    /// Checks all tokens. An error and a timeout are failures.
    async fn check(&self, state: &AppState) {
        let tokens = self.lock().all();
        let checked = tokio::select! {
            biased;
            checked = check(state, &tokens) => checked.map_err(|error| error.to_string()),
            () = state.clock.sleep(REVALIDATE) => Err("timed out".to_owned()),
        };
        if let Err(error) = checked {
            tracing::debug!(%error, "cannot check the tokens of streams; retrying");
            tokens.iter().for_each(|token| token.record_failure(&*state.clock));
        }
    }
}

/// The token of one stream. Dropping it leaves the checker.
pub(crate) struct StreamToken {
    token: Arc<WatchedToken>,
    follower: Follower,
    expires_at: Option<Timestamp>,
    /// Wakes an idle stream when the token expires.
    expiry: Option<Sleep>,
    clock: Arc<dyn Clock>,
    checker: Arc<Checker>,
}

impl StreamToken {
    /// Whether the stream may send something now. Ask before everything that is sent.
    pub(crate) fn status(&mut self) -> TokenStatus {
        let status = self.follower.status(&*self.clock);
        if self.expires_at.is_some_and(|at| at <= self.clock.now()) {
            TokenStatus::Ended(StreamEnd::Expired)
        } else if self.checker.shared.ended.is_cancelled() {
            TokenStatus::Ended(StreamEnd::Unchecked)
        } else {
            status
        }
    }

    /// Waits until the status may have changed since [`Self::status`].
    pub(crate) async fn changed(&mut self) {
        tokio::select! {
            () = self.follower.changed() => {}
            () = self.checker.shared.ended.cancelled() => {}
            () = completed(&mut self.expiry) => self.expiry = None,
        }
    }

    /// The token, which it shares with its other streams.
    pub(crate) const fn watched(&self) -> &Arc<WatchedToken> {
        &self.token
    }
}

/// Waits for a sleep; forever without one.
async fn completed(sleep: &mut Option<Sleep>) {
    match sleep {
        Some(sleep) => sleep.await,
        None => std::future::pending().await,
    }
}
