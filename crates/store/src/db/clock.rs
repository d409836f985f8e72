//! The database's time, which all replicas share whatever their own clocks show.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use jiff_sqlx::ToSqlx;
use trueup_model::clock::{Clock, Sleep};

use crate::{App, Error};

/// A clock anchored to database time; between anchors it advances by the monotonic clock.
#[derive(Debug)]
pub struct DbClock {
    start: Instant,
    /// Microseconds of database time at `start`.
    anchor: AtomicI64,
}

impl DbClock {
    /// A clock that shows this machine's time until it is anchored.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    #[must_use]
    pub fn unanchored() -> Self {
        Self::starting_at(Timestamp::now())
    }

    /// A clock that shows the given time until it is anchored, like a machine with a wrong clock.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    #[must_use]
    pub fn starting_at(now: Timestamp) -> Self {
        Self { start: Instant::now(), anchor: AtomicI64::new(now.as_microsecond()) }
    }

    /// Reads the database's time. Call again after a failover.
    ///
    /// # Errors
    /// The database cannot be reached; the clock keeps its last anchor.
    pub async fn anchor(&self, app: &App) -> Result<(), Error> {
        let before = self.monotonic();
        let (db_now,): (jiff_sqlx::Timestamp,) =
            sqlx::query_as("select clock_timestamp()").fetch_one(app.pool()).await?;
        let midpoint = (before + self.monotonic()) / 2;
        let db_now: Timestamp = db_now.to_jiff();
        let midpoint = i64::try_from(midpoint.as_micros()).unwrap_or(0);
        self.anchor.store(db_now.as_microsecond().saturating_sub(midpoint), Ordering::Relaxed);
        Ok(())
    }
}

impl Clock for DbClock {
    fn now(&self) -> Timestamp {
        let anchor = Timestamp::from_microsecond(self.anchor.load(Ordering::Relaxed))
            .unwrap_or(Timestamp::UNIX_EPOCH);
        let passed = SignedDuration::try_from(self.monotonic()).unwrap_or(SignedDuration::ZERO);
        let now = anchor.checked_add(passed).unwrap_or(anchor);
        // Postgres stores microseconds: a time shown now must equal the time read back later.
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Converts a time for binding to a statement.
pub(crate) fn sql(at: Timestamp) -> jiff_sqlx::Timestamp {
    at.to_sqlx()
}
