//! Waiting for something to be true, for a bounded time.

use std::future::Future;
use std::io::Write;
use std::time::Duration;

use tokio::time::Instant;

/// How long things may take to come true on a busy machine: only reached by a failure.
pub(crate) const SOON: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(50);

/// Asks again and again until there is an answer; fails with what it waited for.
pub(crate) async fn eventually<T, F>(what: &str, limit: Duration, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let answered = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    match tokio::time::timeout(limit, answered).await {
        Ok(answer) => answer,
        Err(_) => panic!("waited {limit:?} for {what}"),
    }
}

/// Does something that is promised within some time, and reports how long it took.
///
/// Whether the promise holds says as much about the machine as about Trueup: on a busy one it is
/// missed, which is reported and no failure. What never ends must fail by a limit of its own.
pub(crate) async fn promised<T>(what: &str, promise: Duration, work: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let done = work.await;
    let took = began.elapsed();
    let held = if took <= promise { "held" } else { "missed" };
    let line = format!("promise {held}: {what} in {took:.1?}, {promise:?} are promised\n");
    // Not by `println`, which is hidden where a test passes.
    std::io::stderr().write_all(line.as_bytes()).ok();
    done
}

/// Looks again and again for this long; fails as soon as it is not true.
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
    assert!(!broken, "it was not true all the time: {what}");
}
