//! Variables of a project, and of one service: wire types and client methods.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::variable::VariableName;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, segment};
use crate::project::project_path;
use crate::schema::EntryValue;
use crate::service::service_path;

/// The body that sets a variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "value": "north" }))]
pub struct VariableBody {
    /// The value.
    #[schema(value_type = EntryValue)]
    pub value: String,
}

/// The body that sets and deletes several variables at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "set": { "REGION": "north", "LOG_LEVEL": "info" }, "delete": ["DEBUG"] }))]
pub struct VariablePatchBody {
    /// The values to set, by name; at most 200.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<VariableName, EntryValue>)]
    pub set: BTreeMap<String, String>,
    /// The names to delete; at most 200. Each of them must be set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<VariableName>)]
    pub delete: Vec<String>,
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

impl Client {
    /// The variables that all services of a project share.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn variable_list(&self, project: &str) -> Result<VariableList, ClientError> {
        self.get(&format!("{}/variables", project_path(project)?)).await
    }

    /// Sets and deletes variables of a project, all or none.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn variable_patch(
        &self,
        project: &str,
        body: &VariablePatchBody,
    ) -> Result<VariableList, ClientError> {
        self.patch(&format!("{}/variables", project_path(project)?), body).await
    }

    /// Sets a variable for all services of a project.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn variable_put(
        &self,
        project: &str,
        name: &str,
        body: &VariableBody,
    ) -> Result<Variable, ClientError> {
        let path = format!("{}/variables/{}", project_path(project)?, segment(name)?);
        Ok(self.put(&path, body).await?.1)
    }

    /// Deletes a variable of a project.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn variable_delete(&self, project: &str, name: &str) -> Result<(), ClientError> {
        self.remove(&format!("{}/variables/{}", project_path(project)?, segment(name)?)).await
    }

    /// The variables of one service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_variable_list(
        &self,
        project: &str,
        service: &str,
    ) -> Result<VariableList, ClientError> {
        self.get(&format!("{}/variables", service_path(project, service)?)).await
    }

    /// Sets and deletes variables of one service, all or none.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_variable_patch(
        &self,
        project: &str,
        service: &str,
        body: &VariablePatchBody,
    ) -> Result<VariableList, ClientError> {
        self.patch(&format!("{}/variables", service_path(project, service)?), body).await
    }

    /// Sets a variable for one service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_variable_put(
        &self,
        project: &str,
        service: &str,
        name: &str,
        body: &VariableBody,
    ) -> Result<Variable, ClientError> {
        let path = format!("{}/variables/{}", service_path(project, service)?, segment(name)?);
        Ok(self.put(&path, body).await?.1)
    }

    /// Deletes a variable of a service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_variable_delete(
        &self,
        project: &str,
        service: &str,
        name: &str,
    ) -> Result<(), ClientError> {
        let service = service_path(project, service)?;
        self.remove(&format!("{service}/variables/{}", segment(name)?)).await
    }
}
