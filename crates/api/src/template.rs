//! Templates on the wire.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A template version as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Template {
    /// Name and version, as a manifest says it: `web@1`.
    pub name: String,
    /// One sentence for people who choose.
    pub summary: String,
    /// What may be set, by name, with its constraints.
    #[schema(value_type = Object)]
    pub parameters: Value,
}

/// A list of templates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TemplateList {
    /// In name order.
    pub items: Vec<Template>,
}
