//! Time as the database tells it: all replicas agree on it, whatever their own clocks say.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use jiff_sqlx::ToSqlx;
use trueup_model::clock::{Clock, Sleep};

use crate::{App, Error};

/// A clock anchored to database time; between anchors it goes on by the monotonic clock.
#[derive(Debug)]
pub struct DbClock {
    start: Instant,
    /// Microseconds of database time at `start`.
    anchor: AtomicI64,
}

impl DbClock {
    /// A clock that tells this machine's time until it is anchored.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    #[must_use]
    pub fn unanchored() -> Self {
        Self::starting_at(Timestamp::now())
    }

    /// A clock that tells some other time until it is anchored, as that of a machine that is wrong.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    #[must_use]
    pub fn starting_at(now: Timestamp) -> Self {
        Self { start: Instant::now(), anchor: AtomicI64::new(now.as_microsecond()) }
    }

    /// Asks the database for its time. Call again after a failover.
    ///
    /// # Errors
    /// The database does not answer; the clock goes on as it was.
    pub async fn anchor(&self, app: &App) -> Result<(), Error> {
        let before = self.monotonic();
        let (told,): (jiff_sqlx::Timestamp,) =
            sqlx::query_as("select clock_timestamp()").fetch_one(app.pool()).await?;
        let asked = (before + self.monotonic()) / 2;
        let told: Timestamp = told.to_jiff();
        let asked = i64::try_from(asked.as_micros()).unwrap_or(0);
        self.anchor.store(told.as_microsecond().saturating_sub(asked), Ordering::Relaxed);
        Ok(())
    }
}

impl Clock for DbClock {
    fn now(&self) -> Timestamp {
        let anchor = Timestamp::from_microsecond(self.anchor.load(Ordering::Relaxed))
            .unwrap_or(Timestamp::UNIX_EPOCH);
        let passed = SignedDuration::try_from(self.monotonic()).unwrap_or(SignedDuration::ZERO);
        let now = anchor.checked_add(passed).unwrap_or(anchor);
        // Postgres keeps microseconds: what is shown at once must equal what is read back later.
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// For binding a time to a statement.
pub(crate) fn sql(at: Timestamp) -> jiff_sqlx::Timestamp {
    at.to_sqlx()
}
