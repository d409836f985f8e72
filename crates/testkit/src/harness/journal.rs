//! The effect journal: every write that was sent, what it did and what its sender heard.

use std::time::Duration;

use serde_json::Value;
use trueup_model::key::ResourceKey;

use crate::fake_cluster::{Verb, Write};

/// One write that was sent.
#[derive(Debug, Clone)]
pub struct Call {
    /// Apply, patch or delete.
    pub verb: Verb,
    /// What it was sent for.
    pub key: ResourceKey,
    /// Which incarnation it was guarded with, if it was.
    pub uid: Option<String>,
    /// In which step of the workload.
    pub step: usize,
    /// When, on the monotonic clock.
    pub at: Duration,
    /// What stood at its key right before.
    pub target: Target,
    /// What it changed, if anything.
    pub effect: Option<Write>,
    /// What its sender heard: `ok`, the label of an error, or `nothing` if it was stopped.
    pub heard: &'static str,
}

/// What stands at a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Nothing.
    Absent,
    /// An object.
    Present,
    /// An object that is being deleted.
    Terminating,
}

impl Target {
    /// What this object is, if there is one.
    #[must_use]
    pub fn of(found: Option<&Value>) -> Self {
        match found {
            None => Self::Absent,
            Some(object) if object["metadata"]["deletionTimestamp"].is_null() => Self::Present,
            Some(_) => Self::Terminating,
        }
    }
}

impl Call {
    /// Whether it took something away, or let it go.
    #[must_use]
    pub fn is_destructive(&self) -> bool {
        self.verb == Verb::Delete || self.verb == Verb::Patch
    }

    /// What it is called in a plan's comment.
    #[must_use]
    pub fn title(&self) -> String {
        let verb = match self.verb {
            Verb::Apply => "apply",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Rehearse => "rehearse",
        };
        format!("{verb} {}/{}", self.key.kind, self.key.name)
    }
}
