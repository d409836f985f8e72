//! Timeouts for database calls.
//!
//! The socket of a dead connection may wait for a quarter of an hour. Loops do not wait that long:
//! they retry on another connection. The call that timed out may still have been executed.

use std::time::Duration;

use trueup_model::Clock;
use trueup_store::Error;

/// Longer than the database's own statement timeout.
const LIMIT: Duration = Duration::from_secs(40);

/// The result of a call, or [`Error::Silent`] after the default timeout.
pub(crate) async fn within<T>(
    clock: &dyn Clock,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    within_time(clock, LIMIT, call).await
}

/// The result of a call, or [`Error::Silent`] after `limit`.
pub(crate) async fn within_time<T>(
    clock: &dyn Clock,
    limit: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::select! {
        answer = call => answer,
        () = clock.sleep(limit) => Err(Error::Silent),
    }
}

#[cfg(test)]
mod tests {
    use trueup_store::DbClock;

    use super::*;

    #[tokio::test]
    async fn call_without_an_answer_times_out() {
        let clock = DbClock::unanchored();
        let never = std::future::pending::<Result<(), Error>>();
        let answer = within_time(&clock, Duration::from_millis(5), never).await;
        assert!(matches!(answer, Err(Error::Silent)), "{answer:?}");
        let answer = within(&clock, async { Ok::<_, Error>(7) }).await;
        assert!(matches!(answer, Ok(7)), "{answer:?}");
    }
}
