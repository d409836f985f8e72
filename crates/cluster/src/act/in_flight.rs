//! Waits out in-flight writes before trusting a 404.
//!
//! An unacknowledged call may still take effect: it may wait in a queue of the server, or in a
//! former lease holder. What it creates is absent now and present a moment later. Such a call is
//! over once the lease time plus the call deadline have passed, so only a read that began after
//! that completes a deletion. Nothing of this is stored: a restart is a new epoch, and a new epoch
//! waits again.

use std::collections::BTreeMap;
use std::time::Duration;

use trueup_model::drift::Divergence;
use trueup_model::key::ResourceKey;
use trueup_model::receipt::Reading;
use trueup_model::survey::Survey;
use trueup_rules::plan::Observed;

use crate::verbs::CallError;

/// How long an unacknowledged call may still take effect.
#[derive(Debug, Clone, Copy)]
pub struct InFlightWindow {
    /// Lease time plus call deadline.
    pub lasts: Duration,
    /// Whether an earlier epoch may have left calls behind.
    pub inherited: bool,
}

impl InFlightWindow {
    /// When the calls of earlier epochs are over, if the executor starts at `now`.
    pub(crate) fn over(self, now: Duration) -> Duration {
        if self.inherited { now.saturating_add(self.lasts) } else { Duration::ZERO }
    }
}

/// What a unit carries over from one pass to the next.
#[derive(Debug, Clone, Default)]
pub(crate) struct PassMemory {
    /// When a call of this unit last went unacknowledged.
    unanswered: Option<Duration>,
    /// The read that found everything gone while a call may still have been in flight.
    pub(crate) first: Option<Reading>,
    /// The version that each key was last seen at during a deletion.
    pub(crate) versions: BTreeMap<ResourceKey, String>,
    /// The last survey of a project's namespace before the delete was sent. An earlier one is
    /// recorded.
    pub(crate) survey: Option<Survey>,
    /// The differences that stood after the last pass.
    pub(crate) standing: Vec<Divergence>,
}

impl PassMemory {
    /// Records an error after which the call may have taken effect.
    pub(crate) fn note_error(&mut self, error: &CallError, now: Duration) {
        if matches!(error, CallError::Unanswered(_) | CallError::Server(_)) {
            self.note_unanswered(now);
        }
    }

    /// Records that a call may have been sent without an acknowledgement.
    pub(crate) fn note_unanswered(&mut self, now: Duration) {
        self.unanswered = Some(now);
        self.first = None;
    }

    /// Records the versions at which the objects of a deletion were seen.
    pub(crate) fn note_versions(&mut self, observed: &Observed) {
        for (key, object) in &observed.objects {
            if let Some(version) = object["metadata"]["resourceVersion"].as_str() {
                self.versions.insert(key.clone(), version.to_owned());
            }
        }
    }

    /// When calls of this unit are no longer in flight: a read that begins later is final.
    pub(crate) fn over(&self, lasts: Duration) -> Duration {
        self.unanswered.map_or(Duration::ZERO, |at| at.saturating_add(lasts))
    }
}
