//! Crash points: named places where a test can make the process end at once, as if killed.
//!
//! A process that is started with a point armed aborts when it gets there: no destructor runs, no
//! buffer is flushed. Unarmed, a point is one relaxed load; release builds do not even have that.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Every point there is. A test runs through all of them, so a point that is never reached fails.
pub const POINTS: [&str; 6] = [
    "door.accepted",
    "driver.claimed",
    "executor.applied",
    "settle.settled",
    "executor.deleted",
    "executor.verified",
];

static ARMED: OnceLock<&'static str> = OnceLock::new();
static HITS_LEFT: AtomicU32 = AtomicU32::new(0);

/// Arms a point for its n-th hit. Called once, at the start of a process.
///
/// # Errors
/// The name when there is no such point: a typing mistake must not look like a survived crash.
pub fn arm(point: &str, hit: u32) -> Result<(), String> {
    let known = POINTS.into_iter().find(|known| *known == point).ok_or_else(|| point.to_owned())?;
    HITS_LEFT.store(hit.max(1), Ordering::Relaxed);
    ARMED.set(known).map_err(str::to_owned)
}

/// Ends the process here, if this point is armed and its turn has come.
pub fn point(name: &'static str) {
    debug_assert!(POINTS.contains(&name), "{name} should be listed in POINTS");
    if cfg!(debug_assertions)
        && ARMED.get() == Some(&name)
        && HITS_LEFT.fetch_sub(1, Ordering::Relaxed) == 1
    {
        std::process::abort();
    }
}
