//! Secrets of a project, and of one service: values are written and never returned.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::secret::{SecretValue, expose};
use trueup_model::variable::VariableName;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, segment};
use crate::project::project_path;
use crate::schema::EntryValue;
use crate::service::service_path;

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

impl Client {
    /// The secrets that all services of a project share.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn secret_list(&self, project: &str) -> Result<SecretList, ClientError> {
        self.get(&format!("{}/secrets", project_path(project)?)).await
    }

    /// Sets a secret for all services of a project.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn secret_put(
        &self,
        project: &str,
        name: &str,
        body: &SecretBody,
    ) -> Result<Secret, ClientError> {
        let path = format!("{}/secrets/{}", project_path(project)?, segment(name)?);
        Ok(self.put(&path, body).await?.1)
    }

    /// Deletes a secret of a project.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn secret_delete(&self, project: &str, name: &str) -> Result<(), ClientError> {
        self.remove(&format!("{}/secrets/{}", project_path(project)?, segment(name)?)).await
    }

    /// The secrets of one service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_secret_list(
        &self,
        project: &str,
        service: &str,
    ) -> Result<SecretList, ClientError> {
        self.get(&format!("{}/secrets", service_path(project, service)?)).await
    }

    /// Sets a secret for one service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_secret_put(
        &self,
        project: &str,
        service: &str,
        name: &str,
        body: &SecretBody,
    ) -> Result<Secret, ClientError> {
        let path = format!("{}/secrets/{}", service_path(project, service)?, segment(name)?);
        Ok(self.put(&path, body).await?.1)
    }

    /// Deletes a secret of a service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_secret_delete(
        &self,
        project: &str,
        service: &str,
        name: &str,
    ) -> Result<(), ClientError> {
        let service = service_path(project, service)?;
        self.remove(&format!("{service}/secrets/{}", segment(name)?)).await
    }
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
