//! Tokens and `whoami`: wire types and client methods.

use jiff::Timestamp;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use trueup_model::principal::{Permission, Role};
use trueup_model::{OrgId, TokenId};
use utoipa::ToSchema;

use crate::client::{Client, ClientError, segment};
use crate::member::RoleInProject;
use crate::schema::{Days, ProjectKey, TokenName};

/// The body that creates a token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "ci", "role": "developer", "expires_in_days": 90}))]
pub struct TokenRequest {
    /// The name: who or what will use the token.
    #[schema(value_type = TokenName)]
    pub name: String,
    /// The role. `operator` belongs to no org.
    #[schema(value_type = Role)]
    pub role: String,
    /// The only project that the token reaches, by name or id; the whole org when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ProjectKey>)]
    pub project: Option<String>,
    /// A subset of the role's permissions; all of them when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Permission>>)]
    pub permissions: Option<Vec<String>>,
    /// The lifetime in days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Days>)]
    pub expires_in_days: Option<u32>,
    /// When it expires; instead of `expires_in_days`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// A token as it is shown, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// `tok_…`; its 26 characters are also part of the token itself, after `tu_`.
    #[schema(value_type = TokenId)]
    pub id: String,
    /// The token's name.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The name of the only project that it reaches; null for the whole org.
    pub project: Option<String>,
    /// Its permissions.
    pub permissions: Vec<Permission>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires; null if it does not.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, accurate to an hour.
    pub last_used_at: Option<Timestamp>,
}

/// A new token: the only response that contains the secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    /// The token without its secret.
    #[serde(flatten)]
    pub token: Token,
    /// The secret. It is shown only once: a retry with the same idempotency key does not return it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

impl std::fmt::Debug for NewToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewToken").field("token", &self.token).finish_non_exhaustive()
    }
}

/// A list of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenList {
    /// In name order, without revoked tokens.
    pub items: Vec<Token>,
}

/// The caller of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Whoami {
    /// Who it is: `usr_…` of a user, `tok_…` of a token.
    pub principal: String,
    /// The token's id; null for a user.
    #[schema(value_type = Option<TokenId>)]
    pub token: Option<String>,
    /// The name of the user or of the token.
    pub name: String,
    /// Its role in the org.
    pub role: Role,
    /// Its permissions in the org.
    pub permissions: Vec<Permission>,
    /// Its roles in single projects.
    pub projects: Vec<RoleInProject>,
    /// The org of the request; null for an operator who names none.
    pub org: Option<WhoamiOrg>,
    /// When the token expires; null if it does not.
    pub expires_at: Option<Timestamp>,
}

/// The org of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhoamiOrg {
    /// `org_…`
    #[schema(value_type = OrgId)]
    pub id: String,
    /// The org's name.
    pub name: String,
}

impl Client {
    /// The caller, with its role and permissions.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn whoami(&self) -> Result<Whoami, ClientError> {
        self.get("/v1/whoami").await
    }

    /// The tokens of the org; for an operator who names no org, the operator tokens.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn token_list(&self) -> Result<TokenList, ClientError> {
        self.get("/v1/tokens").await
    }

    /// Creates a token. Only this response ever contains its secret.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn token_create(&self, wanted: &TokenRequest) -> Result<NewToken, ClientError> {
        self.post("/v1/tokens", wanted).await
    }

    /// Revokes a token by name or id.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn token_revoke(&self, name_or_id: &str) -> Result<Token, ClientError> {
        let path = format!("/v1/tokens/{}", segment(name_or_id)?);
        let response = self.send(self.request(Method::DELETE, &path), &path).await?;
        self.body(response, &path).await
    }
}
