//! Raw transitions on the wire.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Something that happened to a pod or a disk of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Transition {
    /// `trn_…`, in the order in which they were written down.
    pub id: String,
    /// What it happened to: `Pod`, `PersistentVolumeClaim` or `PersistentVolume`.
    pub kind: String,
    /// What that is called; empty for `unobserved`, which is about all of a kind.
    pub name: String,
    /// Which incarnation.
    pub uid: String,
    /// What happened: `appeared`, `scheduled`, `ready`, `container_ended`, `gone` …, or `unobserved`
    /// where nobody watched between `after` and `seen_at`.
    pub what: String,
    /// More about it, such as the node or the exit code.
    #[schema(value_type = Object)]
    pub detail: Value,
    /// When, by Kubernetes' own stamp; absent where it keeps none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Timestamp>,
    /// When it was seen.
    #[schema(value_type = String, format = DateTime)]
    pub seen_at: Timestamp,
    /// It happened unseen, between this and `seen_at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub after: Option<Timestamp>,
    /// The object's version when it was seen.
    pub resource_version: String,
    /// Who saw it.
    pub observer: String,
    /// Under which epoch of the cluster's lease.
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
