//! Retries transactions that lost a race for the same rows.
//!
//! Postgres aborts one of them, and nothing of it is committed. A retry of the whole transaction
//! sees what the other one did. The number of retries is bounded; after that the caller gets the
//! error.

use super::Refusal;

/// More than normal contention needs.
const RETRIES: u32 = 10;

/// Retries as long as the attempt fails because of a concurrent transaction.
pub(super) async fn retry_on_conflict<T, Attempt>(
    mut attempt: impl FnMut() -> Attempt,
) -> Result<T, Refusal>
where
    Attempt: Future<Output = Result<T, Refusal>>,
{
    let mut left = RETRIES;
    loop {
        match attempt().await {
            Err(Refusal::Store(error)) if error.is_race() && left > 0 => {
                left = left.saturating_sub(1);
            }
            result => return result,
        }
    }
}
