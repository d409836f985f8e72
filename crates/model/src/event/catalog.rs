//! Facts about plans and templates.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::name::Name;
use crate::template::TemplateRef;

/// A plan was created, updated or retired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanChanged {
    /// Which.
    pub plan: Name,
    /// Whether it is retired.
    pub retired: bool,
    /// Who requested it.
    pub principal: String,
}

/// A template version was published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TemplatePublished {
    /// Which.
    pub template: TemplateRef,
    /// Who requested it.
    pub principal: String,
}

/// A template version was deprecated: it accepts no new services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TemplateDeprecated {
    /// Which.
    pub template: TemplateRef,
    /// What to use instead.
    pub instead: String,
    /// Who requested it.
    pub principal: String,
}
