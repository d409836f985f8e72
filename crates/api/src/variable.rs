//! Variables on the wire.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body that sets a variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "value": "north" }))]
pub struct VariableBody {
    /// What containers read.
    pub value: String,
}

/// A variable as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Variable {
    /// What containers call it.
    pub name: String,
    /// What they read.
    pub value: String,
    /// Raised each time it is set or taken away.
    pub version: i64,
    /// Who set it.
    pub updated_by: String,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A list of variables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VariableList {
    /// In name order.
    pub items: Vec<Variable>,
}
