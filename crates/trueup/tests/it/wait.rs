//! Waits for conditions, for a bounded time.

use std::future::Future;
use std::io::Write;
use std::time::Duration;

use tokio::time::Instant;

/// The timeout of a wait on a busy machine; only reached by a failure.
pub(crate) const SOON: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(50);

/// Polls until there is a result; fails with a description of the wait.
pub(crate) async fn eventually<T, F>(what: &str, limit: Duration, mut poll: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let polling = async {
        loop {
            if let Some(result) = poll().await {
                return result;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    match tokio::time::timeout(limit, polling).await {
        Ok(result) => result,
        Err(_) => panic!("waited {limit:?} for {what}"),
    }
}

/// Does some work and prints how long it took, compared with a target.
///
/// A missed target is no failure, because it also depends on how busy the machine is. The work must
/// have its own timeout.
pub(crate) async fn report_duration<T>(
    what: &str,
    target: Duration,
    work: impl Future<Output = T>,
) -> T {
    let began = Instant::now();
    let done = work.await;
    let took = began.elapsed();
    let verdict = if took <= target { "met" } else { "missed" };
    let line = format!("target {verdict}: {what} in {took:.1?}, target {target:?}\n");
    // Not with `println`, which is hidden for passing tests.
    std::io::stderr().write_all(line.as_bytes()).ok();
    done
}

/// Polls for this long; fails as soon as the condition does not hold.
pub(crate) async fn always<F>(what: &str, time: Duration, mut holds: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    let watching = async {
        while holds().await {
            tokio::time::sleep(POLL).await;
        }
    };
    let broken = tokio::time::timeout(time, watching).await.is_ok();
    assert!(!broken, "the condition did not hold all the time: {what}");
}
