//! Preview requests: exact previews, from dry runs in the cluster.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::id::PreviewRequestId;
use trueup_model::key::Kind;
use trueup_model::preview_request::{ExactVerb, PreviewState};
use utoipa::ToSchema;

use crate::client::{Client, ClientError, segment};
use crate::preview::PreviewField;
use crate::service::{ServiceManifest, service_path};

/// A request for an exact preview of a declaration, and the preview once it is filled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreviewRequest {
    /// `pvr_…`. Declare the service with `?preview=` and this id to apply exactly this preview.
    #[schema(value_type = PreviewRequestId)]
    pub id: String,
    /// The project's name.
    pub project: String,
    /// The service's name.
    pub service: String,
    /// The generation that the service would have.
    pub generation: i64,
    /// The state of the request.
    pub state: PreviewState,
    /// Why it failed, is no longer valid, or is still waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The preview, once it is filled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<ExactPreview>,
    /// A hash of the inputs of the preview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The name of the token that requested it.
    pub requested_by: String,
    /// When it was requested.
    pub created_at: Timestamp,
    /// When it was last confirmed to be valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_at: Option<Timestamp>,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// What would happen in the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExactPreview {
    /// Each object of the service.
    pub objects: Vec<ExactObject>,
    /// Why the change would not complete; absent if it would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stops: Option<String>,
}

impl ExactPreview {
    /// Whether the change would complete.
    #[must_use]
    pub fn goes_through(&self) -> bool {
        self.stops.is_none() && self.objects.iter().all(|object| object.refused.is_none())
    }
}

/// What would happen to one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExactObject {
    /// The object's kind.
    pub kind: Kind,
    /// Its namespace; empty for kinds without one.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What would be done with the object.
    pub verb: ExactVerb,
    /// The fields that would change in the live object, as the cluster would store it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<PreviewField>,
    /// Why the cluster would reject the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl Client {
    /// Requests an exact preview of a declaration; read it with [`Client::preview_request_get`].
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn preview_request_create(
        &self,
        project: &str,
        name: &str,
        manifest: &ServiceManifest,
    ) -> Result<PreviewRequest, ClientError> {
        let path = format!("{}/preview-requests", service_path(project, name)?);
        self.post(&path, manifest).await
    }

    /// A preview request in its current state.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn preview_request_get(
        &self,
        project: &str,
        name: &str,
        id: &str,
    ) -> Result<PreviewRequest, ClientError> {
        let path = format!("{}/preview-requests/{}", service_path(project, name)?, segment(id)?);
        self.get(&path).await
    }
}
