//! Checks that cannot run on this machine.
//!
//! A test that returns early prints `ok` although it checked nothing. Such a test calls
//! [`left_out`] instead: the reason is counted and printed at the end of `make test`, and where
//! everything is required (CI) the test fails.

use std::fs::OpenOptions;
use std::io::Write;
use std::thread;

/// The file that `make test` collects reasons in.
pub const REPORT: &str = "TRUEUP_LEFT_OUT";
/// Set where a check that cannot run is a failure.
pub const REQUIRE_ALL: &str = "TRUEUP_REQUIRE_ALL";

/// Records that the calling test leaves something out, and why.
///
/// # Panics
/// Every check is required here, or the report cannot be written.
pub fn left_out(reason: &str) {
    assert!(
        std::env::var_os(REQUIRE_ALL).is_none(),
        "every check is required here ({REQUIRE_ALL}), and this one cannot run: {reason}"
    );
    let Some(report) = std::env::var_os(REPORT) else { return };
    let test = thread::current().name().unwrap_or("unnamed").to_owned();
    let file = OpenOptions::new().create(true).append(true).open(report);
    let mut file = file.expect("the report of left-out checks should be writable");
    // One write per line: several tests append to the same file.
    let line = format!("{test}: {reason}\n");
    file.write_all(line.as_bytes()).expect("the report of left-out checks should be writable");
}
