//! Raw calls of any path.

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::{Client, ClientError};

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
                "`{method}` is not a method. Use GET, PUT, POST, PATCH or DELETE"
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
