//! A service field by field: wire types and the client method.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{Display, EnumString, IntoStaticStr};
use trueup_model::drift::{DivergenceState, Verdict};
use trueup_model::id::{DivergenceId, ServiceId};
use trueup_model::status::Reconciliation;
use utoipa::ToSchema;

use crate::client::{Client, ClientError};
use crate::plan::Amount;
use crate::service::service_path;

/// A service field by field: desired, applied and observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Comparison {
    /// `svc_…`
    #[schema(value_type = ServiceId)]
    pub service: String,
    /// The desired generation.
    pub generation: i64,
    /// The newest generation that was completely applied; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_generation: Option<i64>,
    /// The generation that the observation was compared with; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the observation last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Timestamp>,
    /// Until when the observation was confirmed: every watch that it depends on was heard of then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_at: Option<Timestamp>,
    /// When it is stale unless it is confirmed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_at: Option<Timestamp>,
    /// Whether the service has converged.
    pub reconciliation: Reconciliation,
    /// The fields of the spec in name order, the ready pods, and then divergences of other fields.
    pub fields: Vec<ComparedField>,
}

/// How the states of a field compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum FieldState {
    /// The observed value is the desired one.
    Same,
    /// The desired value is not applied yet.
    Pending,
    /// Another writer changed it.
    Differs,
    /// There is no fresh evidence; `observed` is the last known value.
    Unknown,
}

/// One field of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ComparedField {
    /// Its name in the spec, or its path in the object.
    #[schema(example = "replicas")]
    pub field: String,
    /// The object, for a field that is only in an object: `Deployment/namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The desired value; null for none.
    #[schema(value_type = Value)]
    pub desired: Value,
    /// The value in `applied_generation`; absent if nothing was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub applied: Option<Value>,
    /// The value that was last observed; absent if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub observed: Option<Value>,
    /// How they compare.
    pub state: FieldState,
    /// Who changed the field, since when, and what happens next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divergence: Option<FieldDivergence>,
}

/// The divergence of a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldDivergence {
    /// `dvg_…`
    #[schema(value_type = DivergenceId)]
    pub id: String,
    /// The field manager that wrote it, if the server recorded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// Whether it is reverted, adopted or left alone.
    pub verdict: Verdict,
    /// What became of it.
    pub state: DivergenceState,
    /// What it costs per hour; absent if the service has no plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hourly: Option<Amount>,
}

impl Client {
    /// A service field by field.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_compare(
        &self,
        project: &str,
        service: &str,
    ) -> Result<Comparison, ClientError> {
        self.get(&format!("{}/comparison", service_path(project, service)?)).await
    }
}
