//! The one place where the command line looks at a clock.
//!
//! Ages are all it is used for. What is true, and in which order, the server says.

use jiff::Timestamp;

/// Wall time on this machine.
#[expect(
    clippy::disallowed_methods,
    reason = "a person's own clock is what an age on their screen is measured with"
)]
pub fn now() -> Timestamp {
    Timestamp::now()
}
