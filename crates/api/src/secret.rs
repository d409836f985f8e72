//! Secrets on the wire: values are written and never returned.

use crate::schema::EntryValue;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::secret::{SecretValue, expose};
use trueup_model::variable::VariableName;
use utoipa::ToSchema;

/// The body that sets a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "value": "correct horse battery staple" }))]
pub struct SecretBody {
    /// The value. It is never returned.
    #[schema(value_type = EntryValue, write_only)]
    #[serde(serialize_with = "expose")]
    pub value: SecretValue,
}

/// A secret as it is shown: everything but its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Secret {
    /// The name of the environment variable.
    #[schema(value_type = VariableName)]
    pub name: String,
    /// Incremented each time it is set or deleted.
    pub version: i64,
    /// The name of the token that set it.
    pub updated_by: String,
    /// When it was set.
    pub updated_at: Timestamp,
}

/// A list of secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretList {
    /// In name order.
    pub items: Vec<Secret>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_do_not_contain_the_secret() {
        for body in [
            r#"{"value": 73577357}"#,
            r#"{"value": ["73577357"]}"#,
            r#"{"value": {"a": "73577357"}}"#,
            r#"{"value": true, "more": "73577357"}"#,
        ] {
            let error = serde_json::from_str::<SecretBody>(body).unwrap_err().to_string();
            assert!(!error.contains("73577357"), "{error}");
        }
        let body: SecretBody = serde_json::from_str(r#"{"value": "73577357"}"#).unwrap();
        assert_eq!(format!("{body:?}"), "SecretBody { value: SecretValue(…) }");
    }
}
