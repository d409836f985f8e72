//! Observed transitions on the wire.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::id::TransitionId;
use trueup_model::key::Kind;
use trueup_model::transition::What;
use utoipa::ToSchema;

/// An observed transition of a pod or volume of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Transition {
    /// `trn_…`, in the order in which they were recorded.
    #[schema(value_type = TransitionId)]
    pub id: String,
    /// The kind of the object.
    pub kind: Kind,
    /// The object's name; empty for `unobserved`, which is about all objects of a kind.
    pub name: String,
    /// The object's uid.
    pub uid: String,
    /// What happened, such as `scheduled` with the node, or `unobserved` if Trueup did not observe
    /// the cluster between `after` and `seen_at`.
    pub what: What,
    /// When it happened, by the timestamp of Kubernetes; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// When it was observed.
    pub seen_at: Timestamp,
    /// It happened between this time and `seen_at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Timestamp>,
    /// The object's resourceVersion when it was observed.
    pub resource_version: String,
    /// The process that observed it.
    pub observer: String,
    /// The epoch of the cluster's lease.
    pub epoch: i64,
}

/// A page of transitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TransitionList {
    /// Oldest first.
    pub items: Vec<Transition>,
    /// The `after` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
