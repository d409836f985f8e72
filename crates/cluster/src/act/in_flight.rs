//! When an absence that was read may be believed.
//!
//! A call whose answer never came may still take effect: it waits in a queue of the server, or in
//! the hands of a former holder of the lease. Everything it could make is absent now and there in a
//! moment. Such a call is over once lease time and call deadline have passed, so only a read that
//! began later closes a deletion. Nothing of this is stored: a restart is a new epoch, and a new
//! epoch begins with the same doubt.

use std::collections::BTreeMap;
use std::time::Duration;

use trueup_model::key::ResourceKey;
use trueup_model::receipt::Reading;
use trueup_model::survey::Survey;
use trueup_rules::plan::Observed;

use crate::verbs::CallError;

/// How long calls may take effect after nobody waits for them any more.
#[derive(Debug, Clone, Copy)]
pub struct InFlightWindow {
    /// Lease time plus call deadline.
    pub lasts: Duration,
    /// Whether an earlier epoch may have left calls behind.
    pub inherited: bool,
}

impl InFlightWindow {
    /// When the calls of earlier epochs are over, on the clock that showed `now` at the start.
    pub(crate) fn over(self, now: Duration) -> Duration {
        if self.inherited { now.saturating_add(self.lasts) } else { Duration::ZERO }
    }
}

/// What is remembered of one unit between its passes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Echoes {
    /// When a call of this unit last ended without an answer.
    unanswered: Option<Duration>,
    /// The read that found everything gone while a call may still have been under way.
    pub(crate) first: Option<Reading>,
    /// The version that each key was last seen at during a deletion.
    pub(crate) versions: BTreeMap<ResourceKey, String>,
    /// The last look at the namespace of a project, after which it was deleted. An earlier one is on record.
    pub(crate) survey: Option<Survey>,
}

impl Echoes {
    /// Remembers a call that may have been carried out.
    pub(crate) fn hear(&mut self, error: &CallError, now: Duration) {
        if matches!(error, CallError::Unanswered(_) | CallError::Server(_)) {
            self.leave(now);
        }
    }

    /// Remembers that something may have been sent whose answer nobody heard.
    pub(crate) fn leave(&mut self, now: Duration) {
        self.unanswered = Some(now);
        self.first = None;
    }

    /// Remembers at which version the objects of a deletion were seen.
    pub(crate) fn see(&mut self, observed: &Observed) {
        for (key, object) in &observed.objects {
            if let Some(version) = object["metadata"]["resourceVersion"].as_str() {
                self.versions.insert(key.clone(), version.to_owned());
            }
        }
    }

    /// From when on a read is the last word.
    pub(crate) fn over(&self, lasts: Duration) -> Duration {
        self.unanswered.map_or(Duration::ZERO, |at| at.saturating_add(lasts))
    }
}
