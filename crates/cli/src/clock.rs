//! The only clock of the command line, used to print ages and to begin reports.
//!
//! Order and state come from the server, never from this clock.

use jiff::Timestamp;

/// Wall time on this machine.
#[expect(clippy::disallowed_methods, reason = "ages are shown relative to the local clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
