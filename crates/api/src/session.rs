//! Sessions: wire types and client methods.

use jiff::Timestamp;
use reqwest::Method;
use reqwest::header::SET_COOKIE;
use serde::{Deserialize, Serialize};
use trueup_model::principal::{Permission, Role};
use trueup_model::secret::{SecretValue, expose};
use trueup_model::session::PREFIX;
use trueup_model::{OrgId, UserId};
use utoipa::ToSchema;

use crate::client::{Client, ClientError};
use crate::member::RoleInProject;

/// The body that signs a user in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"email": "ada@example.com", "password": "a long and unusual sentence"}))]
pub struct SignIn {
    /// The address of the account.
    pub email: String,
    /// Its password.
    #[serde(serialize_with = "expose")]
    #[schema(value_type = String, format = "password")]
    pub password: SecretValue,
}

/// The body that signs a browser in with a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"token": "tu_…"}))]
pub struct TokenSignIn {
    /// The token.
    #[serde(serialize_with = "expose")]
    #[schema(value_type = String, format = "password")]
    pub token: SecretValue,
}

/// A session, as its holder sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Who signed in.
    pub principal: SessionPrincipal,
    /// The org of the request: the one that `Trueup-Org` names, else the first; null for an operator or auditor who
    /// names none.
    pub org: Option<SessionOrg>,
    /// The orgs that the holder has a role in, in the order of their names; of operators and auditors every org.
    pub orgs: Vec<RoleInOrg>,
    /// The role in `org`.
    pub role: Role,
    /// The permissions in `org`.
    pub permissions: Vec<Permission>,
    /// The roles in single projects of `org`.
    pub projects: Vec<RoleInProject>,
    /// When the session ends at the latest. It also ends when it is not used for 12 hours.
    pub expires_at: Timestamp,
}

/// The holder of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionPrincipal {
    /// `usr_…` of a user, `tok_…` of somebody who signed in with a token.
    #[schema(value_type = UserId)]
    pub id: String,
    /// The name of the user or of the token.
    pub name: String,
    /// The address of the user; null for a token.
    pub email: Option<String>,
}

/// An org of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionOrg {
    /// `org_…`
    #[schema(value_type = OrgId)]
    pub id: String,
    /// The org's name.
    pub name: String,
}

/// A role in an org.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RoleInOrg {
    /// `org_…`
    #[schema(value_type = OrgId)]
    pub id: String,
    /// The org's name.
    pub name: String,
    /// The role there.
    pub role: Role,
}

impl Client {
    /// Signs a user in. Returns the session and its secret, which a program sends as a bearer token.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn session_create(
        &self,
        wanted: &SignIn,
    ) -> Result<(Session, SecretValue), ClientError> {
        self.begin_session("/v1/session", wanted).await
    }

    /// Signs in with a token. Returns the session and its secret.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn session_create_by_token(
        &self,
        wanted: &TokenSignIn,
    ) -> Result<(Session, SecretValue), ClientError> {
        self.begin_session("/v1/session/token", wanted).await
    }

    pub(crate) async fn begin_session<B: Serialize + Sync>(
        &self,
        path: &str,
        wanted: &B,
    ) -> Result<(Session, SecretValue), ClientError> {
        let request = self.request(Method::POST, path).json(wanted);
        let response = self.send(request, path).await?;
        let cookies = response.headers().get_all(SET_COOKIE).iter();
        let secret = cookies.filter_map(|cookie| secret_in(cookie.to_str().ok()?)).next();
        let secret = secret.ok_or_else(|| {
            ClientError::Protocol("the server sent no session. Check its version".to_owned())
        })?;
        Ok((self.body(response, path).await?, secret))
    }

    /// The caller's session.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn session_get(&self) -> Result<Session, ClientError> {
        self.get("/v1/session").await
    }

    /// Ends the caller's session.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn session_delete(&self) -> Result<(), ClientError> {
        self.remove("/v1/session").await
    }
}

/// The secret in a `Set-Cookie` header.
fn secret_in(cookie: &str) -> Option<SecretValue> {
    let (_, value) = cookie.split(';').next()?.split_once('=')?;
    value.starts_with(PREFIX).then(|| value.to_owned().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_read_from_either_cookie_and_never_printed() {
        let secret = secret_in("__Host-trueup=tu_session_abc; Path=/; Secure").unwrap();
        assert_eq!(secret.reveal(), "tu_session_abc");
        assert_eq!(secret_in("trueup-7410=; Path=/; Max-Age=0"), None);
        let body =
            SignIn { email: "ada@example.com".to_owned(), password: "canary".to_owned().into() };
        assert!(!format!("{body:?}").contains("canary"));
    }
}
