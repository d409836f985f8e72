//! Waits for a deletion that has no stream of events: of a project, or of an org.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::failure::{Exit, Failure};

/// How often the progress is read.
const INTERVAL: Duration = Duration::from_millis(500);

/// How far a deletion is.
#[derive(Debug)]
pub(super) enum Deletion<T> {
    /// Its absence is verified, with this evidence.
    Complete(T),
    /// It is not complete, for this reason.
    Pending(String),
}

/// Reads the progress of the deletion of `subject` until it is complete, or time is up.
pub(super) async fn poll<T>(
    subject: &str,
    timeout: Duration,
    read: impl AsyncFn() -> anyhow::Result<Deletion<T>>,
) -> anyhow::Result<T> {
    let began = Instant::now();
    loop {
        match read().await? {
            Deletion::Complete(evidence) => return Ok(evidence),
            Deletion::Pending(why) if began.elapsed() > timeout => {
                let message = format!("timed out: {subject} is not deleted yet: {why}");
                return Err(Failure::new(Exit::TimedOut, message)
                    .hint("the deletion continues; wait longer with --timeout")
                    .into());
            }
            Deletion::Pending(_) => sleep(INTERVAL).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::failure::explain;

    /// Polls a deletion that is complete at the fourth read; returns the number of reads, too.
    async fn polled(timeout: Duration) -> (anyhow::Result<u32>, u32) {
        let reads = Cell::new(0);
        let read = async || -> anyhow::Result<Deletion<u32>> {
            reads.set(reads.get() + 1);
            Ok(match reads.get() {
                4 => Deletion::Complete(4),
                _ => Deletion::Pending("2 of 3 without a receipt".to_owned()),
            })
        };
        let result = poll("project/shop", timeout, read).await;
        (result, reads.get())
    }

    #[tokio::test(start_paused = true)]
    async fn deletion_is_read_until_it_is_complete() {
        let (result, reads) = polled(Duration::from_secs(60)).await;
        assert_eq!((result.unwrap(), reads), (4, 4));
    }

    #[tokio::test(start_paused = true)]
    async fn timeout_says_what_is_left() {
        let (result, reads) = polled(Duration::from_millis(600)).await;
        let (exit, message, _) = explain(&result.unwrap_err());
        assert_eq!((exit, reads), (Exit::TimedOut, 3));
        assert_eq!(message, "timed out: project/shop is not deleted yet: 2 of 3 without a receipt");
    }
}
