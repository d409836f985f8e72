//! What is in a namespace, whoever made it: what must be known before a namespace may go.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Everything that was found in a namespace, and what could not be looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Each kind that was listed, with its group: `Deployment.apps`, `Secret`.
    pub kinds: BTreeSet<String>,
    /// What could not be listed.
    pub unread: Vec<Unread>,
    /// Every object of the listed kinds.
    pub items: Vec<Item>,
}

/// A kind or an API group that could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// Which.
    pub what: String,
    /// Why not.
    pub why: String,
}

/// One object in a namespace: only what names it and says who holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Its kind, as the server spells it.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Which incarnation.
    pub uid: String,
    /// The uids of what it belongs to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<String>,
    /// Who wants to be asked before it goes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Whether it is being deleted.
    pub going: bool,
}

/// That a namespace was looked at as a whole, and when, before it was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// When.
    pub at: Timestamp,
    /// Each kind that was listed.
    pub kinds: BTreeSet<String>,
}

/// What else was in a namespace that a forced end left behind: all that the project did not make itself,
/// as far as it could be seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remains {
    /// The first of them, by kind and name.
    pub objects: Vec<Item>,
    /// How many more there are.
    pub more: usize,
    /// What could not be looked at: it may hold more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<Unread>,
}

impl Remains {
    /// How many objects were seen.
    #[must_use]
    pub fn count(&self) -> usize {
        self.objects.len().saturating_add(self.more)
    }
}
