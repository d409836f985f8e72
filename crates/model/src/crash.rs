//! Crash points: named places where a test can stop the code as if the process were killed.
//!
//! There are two forms. A process started with an armed point aborts when it reaches the point: no
//! destructor runs, no buffer is flushed. A test that runs the loops on its own thread sets a
//! script for that thread: a task that the script stops never continues, and the test drops it. In
//! release builds a point does nothing.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// All crash points. The tests go through all of them and fail if one is never reached.
pub const POINTS: [&str; 21] = [
    // A change is written; it is committed, and no loop was notified.
    "door.recorded",
    "door.accepted",
    // The lease is acquired, and no wake was queued.
    "lease_holder.leased",
    // Keys are recorded, not committed; they are committed; the order is handed over; its pass has
    // ended; its wake is finished.
    "driver.claiming",
    "driver.claimed",
    "driver.ordered",
    "driver.passed",
    "driver.finished",
    // Before and after each kind of write to a cluster, and after absence was verified.
    "executor.applying",
    "executor.applied",
    "executor.pruning",
    "executor.pruned",
    "executor.deleting",
    "executor.deleted",
    "executor.releasing",
    "executor.released",
    "executor.verified",
    // Reports are written; they are committed.
    "report.recording",
    "report.recorded",
    // Events have positions and hashes; these are committed.
    "sealer.sealing",
    "sealer.sealed",
];

static ARMED: OnceLock<&'static str> = OnceLock::new();
static HITS_LEFT: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static SCRIPT: RefCell<Option<Script>> = const { RefCell::new(None) };
}

type Script = Rc<dyn Fn(&'static str) -> Fate>;

/// A script's decision when a point is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Continue.
    GoOn,
    /// Stop here for ever.
    Stop,
}

/// Arms a point for its n-th hit. Called once, at process start.
///
/// # Errors
/// The name, if there is no such point: a typo must not look like a survived crash.
pub fn arm(point: &str, hit: u32) -> Result<(), String> {
    let known = POINTS.into_iter().find(|known| *known == point).ok_or_else(|| point.to_owned())?;
    HITS_LEFT.store(hit.max(1), Ordering::Relaxed);
    ARMED.set(known).map_err(str::to_owned)
}

/// Sets the script that decides what happens at points reached on this thread.
pub fn script(decide: impl Fn(&'static str) -> Fate + 'static) {
    SCRIPT.with_borrow_mut(|script| *script = Some(Rc::new(decide)));
}

/// Removes this thread's script.
pub fn end_script() {
    SCRIPT.with_borrow_mut(|script| *script = None);
}

/// Crashes here if this point is armed and this is the chosen hit.
pub async fn point(name: &'static str) {
    if cfg!(debug_assertions) && reach(name) == Fate::Stop {
        std::future::pending().await
    }
}

fn reach(name: &'static str) -> Fate {
    assert!(POINTS.contains(&name), "{name} should be listed in POINTS");
    if ARMED.get() == Some(&name) && HITS_LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
        std::process::abort();
    }
    // Release the borrow before the script runs: it may replace itself.
    let script = SCRIPT.with_borrow(Option::clone);
    script.map_or(Fate::GoOn, |decide| decide(name))
}
