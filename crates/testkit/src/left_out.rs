//! Checks that cannot run on this machine.
//!
//! A test that returns early prints `ok` although it checked nothing. Such a test calls
//! [`left_out`] first: `make test` counts the reason and prints it at the end. Where every check is
//! required (CI), the test fails.

use std::fs::OpenOptions;
use std::io::Write;
use std::thread;

/// The environment variable with the file in which `make test` collects the reasons.
pub const REPORT: &str = "TRUEUP_LEFT_OUT";
/// The environment variable that makes a check that cannot run fail.
pub const REQUIRE_ALL: &str = "TRUEUP_REQUIRE_ALL";

/// Records that the calling test leaves a check out, and why.
///
/// # Panics
/// Every check is required here, or the report cannot be written.
pub fn left_out(reason: &str) {
    assert!(
        std::env::var_os(REQUIRE_ALL).is_none(),
        "this check cannot run here, and {REQUIRE_ALL} requires every check: {reason}"
    );
    let Some(report) = std::env::var_os(REPORT) else { return };
    let test = thread::current().name().unwrap_or("unnamed").to_owned();
    let file = OpenOptions::new().create(true).append(true).open(report);
    let mut file = file.expect("the report of left-out checks should be writable");
    // One write per line: several tests append to the same file.
    let line = format!("{test}: {reason}\n");
    file.write_all(line.as_bytes()).expect("the report of left-out checks should be writable");
}
