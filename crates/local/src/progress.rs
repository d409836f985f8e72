//! Progress of slow parts such as builds and downloads, for display.
//!
//! A watch channel, not a stream of events: a slow reader wants the current state, and a writer
//! must never wait for a reader.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

/// What one part is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The part, such as `kubernetes`.
    pub part: &'static str,
    /// What it does, such as `compiling`.
    pub what: String,
    /// How much data the step has produced so far, if known.
    pub bytes: Option<u64>,
    /// When the step began.
    pub since: Timestamp,
}

impl Stage {
    /// One line for display, such as `kubernetes: compiling (2m10s, 312 MB)`.
    pub fn line(&self, now: Timestamp) -> String {
        let elapsed = brief(now.duration_since(self.since));
        match self.bytes {
            Some(bytes) => {
                format!("{}: {} ({elapsed}, {} MB)", self.part, self.what, bytes / 1_000_000)
            }
            None => format!("{}: {} ({elapsed})", self.part, self.what),
        }
    }
}

fn brief(elapsed: SignedDuration) -> String {
    let seconds = elapsed.as_secs().max(0);
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds:02}s"),
    }
}

/// The current step of every busy part.
pub type Stages = BTreeMap<&'static str, Stage>;

/// A cheap handle, shared by many writers and readers.
#[derive(Clone, Debug)]
pub struct Progress {
    sender: watch::Sender<Stages>,
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    /// A handle without any step.
    pub fn new() -> Self {
        Self { sender: watch::Sender::new(Stages::new()) }
    }

    /// Subscribes to the steps; a part that is done is no longer in the map.
    pub fn subscribe(&self) -> watch::Receiver<Stages> {
        self.sender.subscribe()
    }

    /// The current steps.
    pub fn steps(&self) -> Vec<Stage> {
        self.sender.borrow().values().cloned().collect()
    }

    /// Starts a step of a part. Starting the same step again does not reset its time.
    pub fn begin(&self, part: &'static str, what: impl Into<String>) {
        let what = what.into();
        self.sender.send_if_modified(|steps| {
            if steps.get(part).is_some_and(|step| step.what == what) {
                return false;
            }
            tracing::debug!(part, what, "step");
            steps.insert(part, Stage { part, what, bytes: None, since: now() });
            true
        });
    }

    /// Sets how much data the current step of a part has produced.
    pub fn bytes(&self, part: &'static str, bytes: u64) {
        self.sender.send_if_modified(|steps| match steps.get_mut(part) {
            Some(step) if step.bytes != Some(bytes) => {
                step.bytes = Some(bytes);
                true
            }
            Some(_) | None => false,
        });
    }

    /// Removes a part that is done.
    pub fn finish(&self, part: &'static str) {
        self.sender.send_if_modified(|steps| steps.remove(part).is_some());
    }
}

/// Wall-clock time, for display only.
#[expect(clippy::disallowed_methods, reason = "for display only; no decision depends on it")]
fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_part_step_time_and_size() {
        let since = Timestamp::UNIX_EPOCH;
        let now = since + SignedDuration::from_secs(130);
        let mut step =
            Stage { part: "kubernetes", what: "compiling".to_owned(), bytes: None, since };
        assert_eq!(step.line(now), "kubernetes: compiling (2m10s)");
        step.bytes = Some(312_400_000);
        assert_eq!(step.line(now), "kubernetes: compiling (2m10s, 312 MB)");
    }

    #[test]
    fn parts_are_independent_and_removed_when_done() {
        let progress = Progress::new();
        progress.begin("a", "one");
        progress.begin("b", "two");
        let since = progress.steps()[0].since;
        progress.begin("a", "one");
        progress.bytes("a", 7);
        assert_eq!(progress.steps()[0].since, since);
        assert_eq!(progress.steps()[0].bytes, Some(7));
        progress.finish("a");
        assert_eq!(progress.steps().len(), 1);
    }
}
