//! Plan requests on the wire: exact previews, made by the cluster itself.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::preview::PreviewField;

/// A question what a declaration would really do, and the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreviewRequest {
    /// Its id: `pvr_…`. Declare the service with `?preview=` and this to insist on it.
    pub id: String,
    /// The project's name.
    pub project: String,
    /// The service's name.
    pub service: String,
    /// The generation that the service would have.
    pub generation: i64,
    /// `waiting`: nobody has filled it yet. `filled`: the cluster has said what would happen. `failed`:
    /// nobody could. `void`: what it stands on is not there any more. `expired`: it is too old.
    pub state: String,
    /// Why it failed or does not hold, or what is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What would happen, once it is filled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<ExactPreview>,
    /// A hash of what the plan stands on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Who asked.
    pub requested_by: String,
    /// When it was asked for.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it was last seen to hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub checked_at: Option<Timestamp>,
    /// When it is of no more use.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

/// What the cluster says would happen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExactPreview {
    /// Each object of the service.
    pub objects: Vec<ExactObject>,
    /// Why the change would not come to its end; absent where it would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stops: Option<String>,
}

impl ExactPreview {
    /// Whether the change would come to its end.
    #[must_use]
    pub fn goes_through(&self) -> bool {
        self.stops.is_none() && self.objects.iter().all(|object| object.refused.is_none())
    }
}

/// What would happen to one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExactObject {
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty for kinds without one.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `keep`, `create`, `update`, `delete` or `replace`.
    pub verb: String,
    /// What would differ from what stands there, as the cluster would store it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<PreviewField>,
    /// What the cluster says against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}
