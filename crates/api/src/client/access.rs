//! Calls about who may ask: tokens, orgs, and whoever is asking; and any call at all.

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::path::segment;
use super::{Client, ClientError};
use crate::org::{NewOrg, Org, OrgList, OrgRequest};
use crate::token::{NewToken, Token, TokenList, TokenRequest, Whoami};

/// An answer as it came, whatever it says.
#[derive(Debug)]
pub struct RawAnswer {
    /// The HTTP status.
    pub status: u16,
    /// What the status is called.
    pub reason: &'static str,
    /// The kind of body.
    pub content_type: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

impl Client {
    /// Who is asking.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn whoami(&self) -> Result<Whoami, ClientError> {
        self.get("/v1/whoami").await
    }

    /// The tokens of the org; an operator who names no org sees the operators'.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn token_list(&self) -> Result<TokenList, ClientError> {
        self.get("/v1/tokens").await
    }

    /// Makes a token. The answer is the only one that ever holds its secret.
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

    /// Every org; for operators.
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

    /// Makes an org and the token of its first owner; for operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn org_create(&self, wanted: &OrgRequest) -> Result<NewOrg, ClientError> {
        let path = "/v1/orgs";
        let response = self.send(self.request(Method::POST, path).json(wanted), path).await?;
        self.body(response, path).await
    }

    /// Any call, with this client's token. Every answer is a result, also one that says no.
    ///
    /// # Errors
    /// When nothing answers, or the method or path cannot be sent.
    pub async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Result<RawAnswer, ClientError> {
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| {
            ClientError::Protocol(format!(
                "`{method}` is not a method. Write GET, PUT, POST or DELETE"
            ))
        })?;
        if !path.starts_with('/') {
            let wrong = format!("`{path}` is not a path. Write it like /v1/services");
            return Err(ClientError::Protocol(wrong));
        }
        let read = |(name, value): &(&str, &str)| -> Option<(HeaderName, HeaderValue)> {
            Some((name.parse().ok()?, value.parse().ok()?))
        };
        let headers: Option<HeaderMap> = headers.iter().map(read).collect();
        let headers = headers.ok_or_else(|| {
            ClientError::Protocol("a header cannot be sent. Check its name and value".to_owned())
        })?;
        let mut request = self.request(method, path);
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let url = self.url(path);
        let lost = |source| ClientError::Unreachable { url: url.clone(), source };
        let response = request.headers(headers).send().await.map_err(lost)?;
        let status = response.status();
        let content_type = response.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|kind| kind.to_str().ok()).map(str::to_owned);
        Ok(RawAnswer {
            status: status.as_u16(),
            reason: status.canonical_reason().unwrap_or_default(),
            content_type,
            body: response.bytes().await.map_err(lost)?.to_vec(),
        })
    }
}
