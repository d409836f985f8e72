//! New ids: time and real randomness, in the one place that may be random.

use jiff::Timestamp;
use trueup_model::id::{Id, Noun};

/// A new id for something made now.
pub(crate) fn mint<N: Noun>(now: Timestamp) -> Id<N> {
    let mut entropy = [0; 10];
    getrandom::fill(&mut entropy).expect("the operating system should have randomness");
    Id::from_parts(now, entropy)
}
