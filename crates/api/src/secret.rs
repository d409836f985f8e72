//! Secrets on the wire: values go in and never come out.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;
use utoipa::ToSchema;

/// The body that sets a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "value": "correct horse battery staple" }))]
pub struct SecretBody {
    /// What containers read. It is never shown again.
    #[schema(value_type = String, write_only)]
    pub value: SecretText,
}

/// A secret on its way to Trueup. It has no debug form, and what is wrong with it is said without it.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps a secret.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret itself.
    #[must_use]
    pub fn into_inner(self) -> String {
        self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // serde's own messages repeat what they did not expect.
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self(text)),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => Err(de::Error::custom("must be a text")),
        }
    }
}

/// A secret as it is shown: everything but its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Secret {
    /// What containers call it.
    pub name: String,
    /// Raised each time it is set or taken away.
    pub version: i64,
    /// Who set it.
    pub updated_by: String,
    /// When.
    #[schema(value_type = String, format = DateTime)]
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
    fn what_is_wrong_with_a_secret_is_said_without_it() {
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
        assert_eq!(format!("{body:?}"), "SecretBody { value: SecretText(…) }");
    }
}
