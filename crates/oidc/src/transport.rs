//! Requests to providers: HTTPS, no redirects, no proxy, small answers, a time limit, and only to addresses that a
//! provider may have.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::HeaderValue;
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Url, redirect};

use crate::address::is_public;

/// The time that a provider has for one answer.
const LIMIT: Duration = Duration::from_secs(10);
/// The time to connect.
const CONNECT: Duration = Duration::from_secs(5);
/// The largest answer: key sets and discovery documents have a few kilobytes.
const LARGEST: usize = 512 * 1024;

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct TransportError(String);

impl TransportError {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// The HTTP client for providers.
#[derive(Clone)]
pub(crate) struct Transport {
    http: reqwest::Client,
    allow_private: bool,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("allow_private", &self.allow_private)
            .finish_non_exhaustive()
    }
}

impl Transport {
    /// With `allow_private` providers may be in private networks, and on this machine without TLS.
    pub(crate) fn new(allow_private: bool) -> Result<Self, reqwest::Error> {
        // An error means that a provider of cryptography is already installed.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .redirect(redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT)
            .timeout(LIMIT)
            .dns_resolver(Arc::new(Checked { allow_private }))
            .build()?;
        Ok(Self { http, allow_private })
    }

    /// Whether a request may go to this URL; its name is checked again when it is resolved.
    pub(crate) fn check(&self, url: &Url) -> Result<(), TransportError> {
        let literal = url.host_str().and_then(literal);
        let name = url.host_str().unwrap_or_default();
        let here = literal.is_some_and(|address| address.is_loopback()) || name == "localhost";
        let scheme_fits =
            url.scheme() == "https" || (url.scheme() == "http" && here && self.allow_private);
        if !scheme_fits {
            return Err(TransportError::new(format!("{name} is not reached over https")));
        }
        if literal.is_some_and(|address| !self.allow_private && !is_public(address)) {
            return Err(not_public(name));
        }
        Ok(())
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let url: Url =
            request.uri().to_string().parse().map_err(|_| TransportError::new("not a URL"))?;
        self.check(&url)?;
        let (parts, body) = request.into_parts();
        let sent =
            self.http.request(parts.method, url).headers(parts.headers).body(body).send().await;
        let mut answer = sent.map_err(|error| TransportError::new(describe(&error)))?;
        let (status, kind) = (answer.status(), answer.headers().get("content-type").cloned());
        let mut bytes = Vec::new();
        while let Some(chunk) =
            answer.chunk().await.map_err(|error| TransportError::new(describe(&error)))?
        {
            if bytes.len().saturating_add(chunk.len()) > LARGEST {
                return Err(TransportError::new("its answer is too large"));
            }
            bytes.extend_from_slice(&chunk);
        }
        let mut response = http::Response::new(bytes);
        *response.status_mut() = status;
        let kind = kind.unwrap_or_else(|| HeaderValue::from_static("application/json"));
        response.headers_mut().insert("content-type", kind);
        Ok(response)
    }
}

impl<'c> AsyncHttpClient<'c> for Transport {
    type Error = TransportError;
    type Future = BoxFuture<'c, Result<HttpResponse, TransportError>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        self.send(request).boxed()
    }
}

/// The innermost cause: what is wrong with the connection, without the URL.
fn describe(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("no answer within {} seconds", LIMIT.as_secs());
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

fn literal(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok()
}

fn not_public(host: &str) -> TransportError {
    TransportError::new(format!(
        "{host} is an address of a private network; an operator allows those with \
         `providers.allow_private`"
    ))
}

/// Resolves names, and keeps to itself what must not be reached: the connection goes to an address that was
/// checked, whatever the name resolves to later.
struct Checked {
    allow_private: bool,
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_private = self.allow_private;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let all: Vec<SocketAddr> = found.collect();
            let allowed: Vec<SocketAddr> =
                all.into_iter().filter(|one| allow_private || is_public(one.ip())).collect();
            if allowed.is_empty() {
                return Err(not_public(name.as_str()).into());
            }
            let addresses: Addrs = Box::new(allowed.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S45: URLs of a discovery document are checked like the issuer.
    #[test]
    fn s45_requests_go_to_public_https_addresses_alone() {
        let (strict, private) = (Transport::new(false).unwrap(), Transport::new(true).unwrap());
        for (url, may, may_private) in [
            ("https://id.example.com/token", true, true),
            ("http://id.example.com/token", false, false),
            ("https://127.0.0.1/", false, true),
            ("https://0x7f.1/", false, true),
            ("https://2130706433/", false, true),
            ("https://[::1]/", false, true),
            ("https://[::ffff:169.254.169.254]/", false, true),
            ("https://10.0.0.8/", false, true),
            ("http://127.0.0.1:4000/jwks", false, true),
            ("http://localhost:4000/jwks", false, true),
            ("http://10.0.0.8/", false, false),
            ("file:///etc/passwd", false, false),
            ("gopher://127.0.0.1/", false, false),
        ] {
            let url: Url = url.parse().unwrap();
            assert_eq!(strict.check(&url).is_ok(), may, "{url}");
            assert_eq!(private.check(&url).is_ok(), may_private, "{url}");
        }
    }

    /// S45: a name that resolves to this machine is refused when it is resolved.
    #[tokio::test]
    async fn s45_name_of_an_internal_address_is_not_connected_to() {
        let request = || http::Request::get("https://localhost:1/").body(Vec::new()).unwrap();
        let refused = Transport::new(false).unwrap().send(request()).await.unwrap_err().to_string();
        assert!(refused.contains("private network"), "{refused}");
        let tried = Transport::new(true).unwrap().send(request()).await.unwrap_err().to_string();
        assert!(!tried.contains("private network"), "{tried}");
    }
}
