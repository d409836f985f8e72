//! The journal of write calls: what each changed and which response its sender got.

use std::time::Duration;

use serde_json::Value;
use trueup_model::key::ResourceKey;

use crate::fake_cluster::{Verb, Write};

/// One write that was sent.
#[derive(Debug, Clone)]
pub struct Call {
    /// Apply, patch or delete.
    pub verb: Verb,
    /// The key of the written object.
    pub key: ResourceKey,
    /// The uid precondition, if any.
    pub uid: Option<String>,
    /// The step of the workload.
    pub step: usize,
    /// The monotonic time.
    pub at: Duration,
    /// The state of the object right before.
    pub target: Target,
    /// What it changed, if anything.
    pub effect: Option<Write>,
    /// The response: `ok`, the label of an error, or `nothing` if the sender crashed first.
    pub heard: &'static str,
}

/// The state of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// It does not exist.
    Absent,
    /// It exists.
    Present,
    /// It is being deleted.
    Terminating,
}

impl Target {
    /// The state of this object.
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
    /// Whether it deletes an object or may remove its finalizer.
    #[must_use]
    pub fn is_destructive(&self) -> bool {
        self.verb == Verb::Delete || self.verb == Verb::Patch
    }

    /// Verb and object, for messages and a plan's `about`.
    #[must_use]
    pub fn title(&self) -> String {
        let verb = match self.verb {
            Verb::Apply => "apply",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::DryRun => "dry run",
        };
        format!("{verb} {}/{}", self.key.kind, self.key.name)
    }
}
