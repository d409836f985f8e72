//! Variables on the wire.

use crate::schema::EntryValue;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::variable::VariableName;
use utoipa::ToSchema;

/// The body that sets a variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "value": "north" }))]
pub struct VariableBody {
    /// The value.
    #[schema(value_type = EntryValue)]
    pub value: String,
}

/// A variable as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Variable {
    /// The name of the environment variable.
    #[schema(value_type = VariableName)]
    pub name: String,
    /// The value.
    pub value: String,
    /// Incremented each time it is set or deleted.
    pub version: i64,
    /// The name of the token that set it.
    pub updated_by: String,
    /// When it was set.
    pub updated_at: Timestamp,
}

/// A list of variables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VariableList {
    /// In name order.
    pub items: Vec<Variable>,
}
