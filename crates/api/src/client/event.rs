//! Events: as pages, and as streams.

use reqwest::header::ACCEPT;

use super::path::query;
use super::service::service_path;
use super::{Client, ClientError, Watch};
use crate::event::{EventFilter, EventList, EventPage};

impl Client {
    /// A page of the org's events.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn event_list(
        &self,
        filter: &EventFilter,
        page: &EventPage,
        limit: Option<u32>,
    ) -> Result<EventList, ClientError> {
        let (after, before, order) = match page {
            EventPage::After(after) => (after.as_deref(), None, None),
            EventPage::NewestBefore(before) => (None, before.as_deref(), Some("newest")),
        };
        let limit = limit.map(|limit| limit.to_string());
        let generation = filter.generation.map(|generation| generation.to_string());
        let parameters = [
            ("after", after),
            ("before", before),
            ("order", order),
            ("limit", limit.as_deref()),
            ("subject", filter.subject.as_deref()),
            ("type", filter.kind.as_deref()),
            ("generation", generation.as_deref()),
        ];
        self.get(&query("/v1/events", &parameters)).await
    }

    /// A stream of the org's events after position `after`; without it, only new events.
    ///
    /// # Errors
    /// See [`ClientError`]; the stream also yields errors, and ends after one.
    pub async fn event_watch(
        &self,
        filter: &EventFilter,
        after: Option<String>,
    ) -> Result<Watch, ClientError> {
        let parameters = [("subject", filter.subject.as_deref()), ("type", filter.kind.as_deref())];
        self.watch(&query("/v1/events/watch", &parameters), after).await
    }

    /// A stream of a service's events after position `after`.
    ///
    /// # Errors
    /// See [`ClientError`]; the stream also yields errors, and ends after one.
    pub async fn service_watch(
        &self,
        project: &str,
        name_or_id: &str,
        after: Option<String>,
    ) -> Result<Watch, ClientError> {
        self.watch(&format!("{}/watch", service_path(project, name_or_id)?), after).await
    }

    async fn watch(&self, path: &str, after: Option<String>) -> Result<Watch, ClientError> {
        let mut request = self
            .http
            .get(self.url(path))
            .headers(self.headers.clone())
            .header(ACCEPT, "text/event-stream");
        if let Some(after) = &after {
            request = request.header("Last-Event-ID", after);
        }
        let response = self.send(request, path).await?;
        Ok(Watch::new(response, self.url(path), after))
    }
}
