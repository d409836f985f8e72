//! Crash points: named places where a test can end the work at once, as if the process were killed.
//!
//! There are two forms. A process that is started with a point armed aborts when it gets there: no
//! destructor runs, no buffer is flushed. A test that runs the loops on its own thread gives that
//! thread a script: what the script stops never goes on, and the test drops it. Release builds have
//! neither: a point is a future that is ready.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Every point there is. Tests run through all of them, so a point that is never reached fails.
pub const POINTS: [&str; 21] = [
    // Somebody's change is written; it is committed, and nobody was told.
    "door.recorded",
    "door.accepted",
    // The lease is held, and nothing was woken.
    "lease_holder.leased",
    // Keys are recorded, not committed; they are; the order is given; its pass ended; its wake did.
    "driver.claiming",
    "driver.claimed",
    "driver.ordered",
    "driver.passed",
    "driver.finished",
    // Around each kind of write to a cluster, and after a proof of absence.
    "executor.applying",
    "executor.applied",
    "executor.pruning",
    "executor.pruned",
    "executor.deleting",
    "executor.deleted",
    "executor.releasing",
    "executor.released",
    "executor.verified",
    // What was seen is written; it is committed.
    "report.recording",
    "report.recorded",
    // Events have their places; these are committed.
    "sealer.sealing",
    "sealer.sealed",
];

static ARMED: OnceLock<&'static str> = OnceLock::new();
static HITS_LEFT: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static SCRIPT: RefCell<Option<Script>> = const { RefCell::new(None) };
}

type Script = Rc<dyn Fn(&'static str) -> Fate>;

/// What a script says when a point is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nothing happens.
    GoOn,
    /// The work stops here for ever.
    Stop,
}

/// Arms a point for its n-th hit. Called once, at the start of a process.
///
/// # Errors
/// The name when there is no such point: a typing mistake must not look like a survived crash.
pub fn arm(point: &str, hit: u32) -> Result<(), String> {
    let known = POINTS.into_iter().find(|known| *known == point).ok_or_else(|| point.to_owned())?;
    HITS_LEFT.store(hit.max(1), Ordering::Relaxed);
    ARMED.set(known).map_err(str::to_owned)
}

/// From now on this decides what happens at the points that work on this thread reaches.
pub fn script(decide: impl Fn(&'static str) -> Fate + 'static) {
    SCRIPT.with_borrow_mut(|script| *script = Some(Rc::new(decide)));
}

/// Ends this thread's script.
pub fn end_script() {
    SCRIPT.with_borrow_mut(|script| *script = None);
}

/// Ends the work here, if this point is armed and its turn has come.
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
    // The borrow is over before the script runs: it may replace itself.
    let script = SCRIPT.with_borrow(Option::clone);
    script.map_or(Fate::GoOn, |decide| decide(name))
}
