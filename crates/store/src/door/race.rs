//! Two who want the same rows at the same moment.
//!
//! The database ends one of them, and nothing of it is recorded. Trying the whole transaction again finds what
//! the other one did, so the caller need not hear of it. Bounded: a place that is always taken is told.

use super::Refusal;

/// More than any honest crowd needs.
const TRIES: u32 = 10;

/// Tries as long as it is only overtaken.
pub(super) async fn again<T, Attempt>(mut attempt: impl FnMut() -> Attempt) -> Result<T, Refusal>
where
    Attempt: Future<Output = Result<T, Refusal>>,
{
    let mut left = TRIES;
    loop {
        match attempt().await {
            Err(Refusal::Store(error)) if error.is_race() && left > 0 => {
                left = left.saturating_sub(1);
            }
            answer => return answer,
        }
    }
}
