//! Transitions of a service's pods and volumes.

use super::path::query;
use super::service::service_path;
use super::{Client, ClientError};
use crate::transition::TransitionList;

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
