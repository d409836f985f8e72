//! Tokens, orgs and `whoami`; and raw calls of any path.

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::path::segment;
use super::{Client, ClientError};
use crate::org::{NewOrg, Org, OrgList, OrgRequest};
use crate::token::{NewToken, Token, TokenList, TokenRequest, Whoami};

/// A response of any status, as it was received.
#[derive(Debug)]
pub struct RawAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The reason phrase of the status.
    pub reason: &'static str,
    /// The content type of the body.
    pub content_type: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

impl Client {
    /// The caller's token, role and permissions.
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
        let path = "/v1/tokens";
        let response = self.send(self.request(Method::POST, path).json(wanted), path).await?;
        self.body(response, path).await
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

    /// Every org. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn org_list(&self) -> Result<OrgList, ClientError> {
        self.get("/v1/orgs").await
    }

    /// One org, by name or id.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn org_get(&self, name_or_id: &str) -> Result<Org, ClientError> {
        self.get(&format!("/v1/orgs/{}", segment(name_or_id)?)).await
    }

    /// Creates an org and the token of its first owner. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn org_create(&self, wanted: &OrgRequest) -> Result<NewOrg, ClientError> {
        let path = "/v1/orgs";
        let response = self.send(self.request(Method::POST, path).json(wanted), path).await?;
        self.body(response, path).await
    }

    /// Any call, with this client's token. A response with an error status is a result, too.
    ///
    /// # Errors
    /// When the server cannot be reached, or the request cannot be sent.
    pub async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Result<RawAnswer, ClientError> {
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| {
            ClientError::Protocol(format!(
                "`{method}` is not a method. Use GET, PUT, POST or DELETE"
            ))
        })?;
        if !path.starts_with('/') {
            let wrong = format!("`{path}` is not a path. Use one like /v1/services");
            return Err(ClientError::Protocol(wrong));
        }
        let read = |(name, value): &(&str, &str)| -> Option<(HeaderName, HeaderValue)> {
            Some((name.parse().ok()?, value.parse().ok()?))
        };
        let headers: Option<HeaderMap> = headers.iter().map(read).collect();
        let headers = headers.ok_or_else(|| {
            ClientError::Protocol("invalid header. Check its name and value".to_owned())
        })?;
        let mut request = self.request(method, path);
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let url = self.url(path);
        let unreachable = |source| ClientError::Unreachable { url: url.clone(), source };
        let response = request.headers(headers).send().await.map_err(unreachable)?;
        let status = response.status();
        let content_type = response.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|kind| kind.to_str().ok()).map(str::to_owned);
        Ok(RawAnswer {
            status: status.as_u16(),
            reason: status.canonical_reason().unwrap_or_default(),
            content_type,
            body: response.bytes().await.map_err(unreachable)?.to_vec(),
        })
    }
}
