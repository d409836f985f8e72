//! Observed transitions of a service's pods and volumes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::id::TransitionId;
use trueup_model::key::Kind;
use trueup_model::transition::What;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, query};
use crate::service::service_path;

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

impl Client {
    /// A page of the transitions of a service's pods and volumes, oldest first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn transition_list(
        &self,
        project: &str,
        name_or_id: &str,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<TransitionList, ClientError> {
        let path = format!("{}/transitions", service_path(project, name_or_id)?);
        let limit = limit.map(|limit| limit.to_string());
        self.get(&query(&path, &[("after", after), ("limit", limit.as_deref())])).await
    }

    /// Every transition of a service; reads all pages.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn every_transition(
        &self,
        project: &str,
        name_or_id: &str,
    ) -> Result<TransitionList, ClientError> {
        let mut all = TransitionList { items: Vec::new(), next: None };
        loop {
            let after = all.next.take();
            let page =
                self.transition_list(project, name_or_id, after.as_deref(), Some(1000)).await?;
            all.items.extend(page.items);
            if page.next.is_none() {
                return Ok(all);
            }
            all.next = page.next;
        }
    }
}
