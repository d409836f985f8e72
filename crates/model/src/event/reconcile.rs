//! Facts about reconciliation and its work queue.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The cluster rejected a write or failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReconcileFailed {
    /// The cluster's error.
    pub why: String,
}

/// The cluster is unreachable; convergence is deferred.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReconcileDeferred {
    /// Why.
    pub why: String,
}

/// A dead wake was requeued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WakeRequeued {
    /// Who requested it.
    pub principal: String,
}

/// A reconcile with live reads was requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReconcileRequested {
    /// Who requested it.
    pub principal: String,
}

/// A requested reconcile has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReconcileChecked {
    /// Its outcome: `converged`, `waiting`, `frozen` …
    pub outcome: String,
}
