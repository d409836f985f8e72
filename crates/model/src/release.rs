//! A release: one accepted generation of a service, resolved once.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::id::{PriceVersionId, ReleaseId};
use crate::service::DesiredState;
use crate::spec::Spec;
use crate::template::TemplateRef;

/// The accepted spec of one generation, and who requested it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Its id.
    pub id: ReleaseId,
    /// Its generation.
    pub generation: i64,
    /// The operation: `declare`, `pause`, `rollback` …
    pub action: String,
    /// The template version it was resolved from.
    pub template: TemplateRef,
    /// The parameters as given.
    pub parameters: Map<String, Value>,
    /// The resolved spec.
    pub spec: Spec,
    /// Whether the service is to run, to be paused or to be deleted.
    pub desired: DesiredState,
    /// Who requested it.
    pub principal: String,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// The price version of its plan that held then; none without a plan, and for releases that are
    /// older than price versions.
    pub price_version: Option<PriceVersionId>,
}
