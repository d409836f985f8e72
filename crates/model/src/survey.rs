//! The survey of a namespace: all objects in it, including foreign ones, before it is deleted.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// All objects found in a namespace, and the kinds that could not be listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Each kind that was listed, with its group: `Deployment.apps`, `Secret`.
    pub kinds: BTreeSet<String>,
    /// The kinds and API groups that could not be listed.
    pub unread: Vec<Unread>,
    /// Every object of the listed kinds.
    pub items: Vec<Item>,
}

/// A kind or an API group that could not be listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SurveyUnread)]
pub struct Unread {
    /// The kind or API group.
    pub what: String,
    /// The error.
    pub why: String,
}

/// One object in a namespace: its identity, owners and finalizers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SurveyItem)]
pub struct Item {
    /// Its kind, as the API server spells it.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The uids of its owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<String>,
    /// Its finalizers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Whether it is being deleted.
    pub going: bool,
}

/// Record that all kinds in a namespace were listed before it was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NamespaceSurvey)]
pub struct Survey {
    /// When it was surveyed.
    pub at: Timestamp,
    /// Each kind that was listed.
    pub kinds: BTreeSet<String>,
}

/// Objects that a forced deletion left in a namespace and that Trueup did not create.
///
/// Kinds that could not be listed are in `unread`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NamespaceRemains)]
pub struct Remains {
    /// The first of them, by kind and name.
    pub objects: Vec<Item>,
    /// How many more there are.
    pub more: usize,
    /// What could not be listed and may contain more objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<Unread>,
}

impl Remains {
    /// How many objects were found.
    #[must_use]
    pub fn count(&self) -> usize {
        self.objects.len().saturating_add(self.more)
    }
}
