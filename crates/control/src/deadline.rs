//! Questions to the database that get no answer.
//!
//! A connection may be dead without saying so, and its socket waits for a quarter of an hour. Loops do not:
//! they ask again, on another connection. What was asked may still have been done.

use std::time::Duration;

use trueup_model::Clock;
use trueup_store::Error;

/// Longer than the database itself lets any statement run.
const LONGEST: Duration = Duration::from_secs(40);

/// Waits for an answer, but not for ever.
pub(crate) async fn within<T>(
    clock: &dyn Clock,
    asked: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    within_time(clock, LONGEST, asked).await
}

/// Waits for an answer for so long.
pub(crate) async fn within_time<T>(
    clock: &dyn Clock,
    limit: Duration,
    asked: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::select! {
        answer = asked => answer,
        () = clock.sleep(limit) => Err(Error::Silent),
    }
}

#[cfg(test)]
mod tests {
    use trueup_store::DbClock;

    use super::*;

    #[tokio::test]
    async fn an_answer_that_never_comes_is_not_waited_for() {
        let clock = DbClock::unanchored();
        let never = std::future::pending::<Result<(), Error>>();
        let answer = within_time(&clock, Duration::from_millis(5), never).await;
        assert!(matches!(answer, Err(Error::Silent)), "{answer:?}");
        let answer = within(&clock, async { Ok::<_, Error>(7) }).await;
        assert!(matches!(answer, Ok(7)), "{answer:?}");
    }
}
