//! Waiting for a condition, with an end.

use std::time::{Duration, Instant};

use anyhow::bail;

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Waits until `done` answers true.
pub(crate) async fn until<F>(
    what: &str,
    limit: Duration,
    mut done: impl FnMut() -> F,
) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<bool>>,
{
    let end = Instant::now() + limit;
    while !done().await? {
        if Instant::now() >= end {
            bail!("{what}: not within {} s", limit.as_secs());
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}
