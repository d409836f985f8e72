//! Waits for a condition, with a timeout.

use std::time::{Duration, Instant};

use anyhow::bail;

/// How often a condition is checked.
const POLL: Duration = Duration::from_millis(200);

/// Waits until `done` returns true.
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
            bail!("timed out after {} s waiting for {what}", limit.as_secs());
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}
