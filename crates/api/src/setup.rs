//! Set-up of an install: the wire type and the client method.

use serde::{Deserialize, Serialize};
use trueup_model::secret::{SecretValue, expose};
use utoipa::ToSchema;

use crate::client::{Client, ClientError};
use crate::session::Session;

/// The body that creates the first account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"code": "tu_setup_…", "email": "ada@example.com", "name": "Ada Lovelace",
    "password": "a long and unusual sentence"}))]
pub struct SetupRequest {
    /// The code of the link that `trueup up` printed.
    #[serde(serialize_with = "expose")]
    #[schema(value_type = String, format = "password")]
    pub code: SecretValue,
    /// The address of the account.
    pub email: String,
    /// The name of the person.
    pub name: String,
    /// The password.
    #[serde(serialize_with = "expose")]
    #[schema(value_type = String, format = "password")]
    pub password: SecretValue,
}

impl Client {
    /// Creates the first account of an install. Returns the session and its secret.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn setup_create(
        &self,
        wanted: &SetupRequest,
    ) -> Result<(Session, SecretValue), ClientError> {
        self.begin_session("/v1/setup", wanted).await
    }
}
