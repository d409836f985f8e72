//! A release: one accepted generation of a service, resolved once and never again.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::id::ReleaseId;
use crate::service::DesiredState;
use crate::spec::Spec;
use crate::template::TemplateRef;

/// What was promised under one generation, and who asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Its id.
    pub id: ReleaseId,
    /// The generation it is.
    pub generation: i64,
    /// What was done: `declare`, `pause`, `rollback` …
    pub action: String,
    /// The template version it was resolved from.
    pub template: TemplateRef,
    /// The parameters as they were given.
    pub parameters: Map<String, Value>,
    /// The resolved spec.
    pub spec: Spec,
    /// Whether it shall run, rest or be gone.
    pub desired: DesiredState,
    /// Who asked.
    pub principal: String,
    /// When it was accepted.
    pub accepted_at: Timestamp,
}
