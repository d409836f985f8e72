//! Waiting for something to be true, for a bounded time.

use std::future::Future;
use std::time::Duration;

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
