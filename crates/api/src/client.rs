//! A typed client of the API, with one method per operation and the same name.
//!
//! The command line uses only this client, so a program can do all that the command line can. This file sends
//! requests and reads responses; the methods of a noun are in its file, beside its wire types.

mod dry_run;
mod error;
mod path;
mod raw;
mod retry;
mod sse;
mod watch;

use std::sync::PoisonError;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use dry_run::DryRunClient;
pub use error::ClientError;
pub(crate) use path::{query, segment};
pub use raw::RawAnswer;
pub use retry::RetryNotice;
pub use watch::Watch;

use self::dry_run::Seen;
use self::error::refusal;
use self::retry::Retries;
pub use crate::log::{LogQuery, Logs};
use crate::preview::Preview;
pub use crate::project::AcceptedProject;
pub use crate::service::{Accepted, ServiceQuery, Terms};
pub use crate::wake::WakeQuery;

/// The timeout for establishing a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// The timeout of a whole request; streams have none.
const REQUEST: Duration = Duration::from_secs(30);
/// The idle timeout of a stream. The server sends a keep-alive every 15 seconds, so a longer
/// silence means that the connection is dead.
const IDLE: Duration = Duration::from_secs(60);

/// A client of one Trueup server, with one token.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    headers: HeaderMap,
    /// Where to store the last preview, if every write is a dry run.
    seen: Option<Seen>,
    retries: Retries,
}

impl Client {
    /// A client of the server at this URL (`http://127.0.0.1:7070`), with this token.
    ///
    /// # Errors
    /// When the URL or the token is malformed. Nothing is sent yet.
    pub fn new(base_url: &str, token: &str) -> Result<Self, ClientError> {
        let url = address(base_url)?;
        check_encrypted(&url, std::env::var_os(PLAIN_HTTP).is_some())?;
        let mut bearer = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
            ClientError::Protocol(
                "the token contains invalid characters. Copy it again, without line breaks"
                    .to_owned(),
            )
        })?;
        bearer.set_sensitive(true);
        install_cryptography();
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, bearer);
        let mut builder = reqwest::Client::builder().connect_timeout(CONNECT).read_timeout(IDLE);
        if is_here(&url) {
            // A proxy cannot reach this machine's own loopback address for us.
            builder = builder.no_proxy();
        }
        let base = url.as_str().trim_end_matches('/').to_owned();
        let http = builder
            .build()
            .map_err(|source| ClientError::Unreachable { url: base.clone(), source })?;
        Ok(Self { http, base, headers, seen: None, retries: Retries::default() })
    }

    /// The same client for this org. Only operators need it: other tokens have an org.
    ///
    /// # Errors
    /// When the name cannot be sent in a header.
    pub fn with_org(mut self, org: &str) -> Result<Self, ClientError> {
        let value = HeaderValue::try_from(org).map_err(|_| {
            ClientError::Protocol(format!("`{org}` is not a valid org name. Check its spelling"))
        })?;
        self.headers.insert("trueup-org", value);
        Ok(self)
    }

    /// The same client, which retries refused requests a few times and reports each retry.
    ///
    /// Only requests that had no effect are retried: the server was busy, or it could not reach its
    /// database before it saved anything.
    #[must_use]
    pub fn with_retries(mut self, notify: fn(&RetryNotice<'_>)) -> Self {
        self.retries = Retries::reported_to(notify);
        self
    }

    /// The server's URL, without a trailing slash.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.base
    }

    /// Checks that the server is alive.
    ///
    /// # Errors
    /// When it is not, or cannot be reached.
    pub async fn health(&self) -> Result<(), ClientError> {
        self.send(self.request(Method::GET, "/healthz"), "/healthz").await.map(drop)
    }

    /// Checks that the server is ready to serve requests.
    ///
    /// # Errors
    /// When it is not, or cannot be reached.
    pub async fn ready(&self) -> Result<(), ClientError> {
        self.send(self.request(Method::GET, "/readyz"), "/readyz").await.map(drop)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut url = self.url(path);
        if self.seen.is_some() && method != Method::GET {
            url.push(if path.contains('?') { '&' } else { '?' });
            url.push_str(DRY_RUN);
        }
        self.http
            .request(method, url)
            .headers(self.headers.clone())
            .header(ACCEPT, "application/json, application/problem+json")
            .timeout(REQUEST)
    }

    /// A GET without a timeout, for a response that is a stream.
    pub(crate) fn stream(&self, path: &str) -> RequestBuilder {
        self.http.get(self.url(path)).headers(self.headers.clone())
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let response = self.send(self.request(Method::GET, path), path).await?;
        self.body(response, path).await
    }

    pub(crate) async fn put<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<(StatusCode, T), ClientError> {
        let request = self.request(Method::PUT, path).json(body);
        let response = self.send(request, path).await?;
        let status = response.status();
        Ok((status, self.body(response, path).await?))
    }

    pub(crate) async fn post<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, ClientError> {
        let response = self.send(self.request(Method::POST, path).json(body), path).await?;
        self.body(response, path).await
    }

    pub(crate) async fn patch<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, ClientError> {
        let response = self.send(self.request(Method::PATCH, path).json(body), path).await?;
        self.body(response, path).await
    }

    pub(crate) async fn remove(&self, path: &str) -> Result<(), ClientError> {
        let response = self.send(self.request(Method::DELETE, path), path).await?;
        if is_preview(&response) { self.body(response, path).await } else { Ok(()) }
    }

    /// Sends a request; every response that is not a success becomes an error.
    pub(crate) async fn send(
        &self,
        request: RequestBuilder,
        path: &str,
    ) -> Result<Response, ClientError> {
        let url = self.url(path);
        let mut retries = self.retries;
        let mut request = request;
        loop {
            let same = request.try_clone();
            let response = request
                .send()
                .await
                .map_err(|source| ClientError::Unreachable { url: url.clone(), source })?;
            if response.status().is_success() {
                return Ok(response);
            }
            let pause = retry::pause(&response);
            let error = refusal(response, &url).await;
            let Some(same) = same.filter(|_| retries.allow(&error, pause)) else {
                return Err(error);
            };
            tokio::time::sleep(pause).await;
            request = same;
        }
    }

    /// The body as it is, for files.
    pub(crate) async fn bytes(&self, response: Response) -> Result<Vec<u8>, ClientError> {
        let url = response.url().to_string();
        let read = response.bytes().await;
        Ok(read.map_err(|source| ClientError::Unreachable { url, source })?.to_vec())
    }

    pub(crate) async fn body<T: DeserializeOwned>(
        &self,
        response: Response,
        path: &str,
    ) -> Result<T, ClientError> {
        let (url, previewed) = (self.url(path), is_preview(&response));
        let bytes = response
            .bytes()
            .await
            .map_err(|source| ClientError::Unreachable { url: url.clone(), source })?;
        let read = match (&self.seen, previewed) {
            (Some(seen), true) => serde_json::from_slice(&bytes).and_then(|preview: Preview| {
                let result = preview.result.clone().unwrap_or_default();
                *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(preview);
                serde_json::from_value(result)
            }),
            (Some(_), false) | (None, _) => serde_json::from_slice(&bytes),
        };
        read.map_err(|error| {
            ClientError::Protocol(format!(
                "cannot parse the response from {url} ({error}). Check that the URL is \
                 Trueup's and that client and server have the same version"
            ))
        })
    }
}

/// Parses the server's URL.
///
/// A URL with a password is rejected, and the error does not contain it: URLs are logged.
fn address(text: &str) -> Result<Url, ClientError> {
    let url = Url::parse(text).ok();
    if url.as_ref().is_some_and(|url| !url.username().is_empty() || url.password().is_some()) {
        let said =
            "the URL contains a user or a password. Remove it and pass the token with --token";
        return Err(ClientError::Protocol(said.to_owned()));
    }
    let is_ours = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    url.filter(is_ours).ok_or_else(|| {
        ClientError::Protocol(format!(
            "`{text}` is not a server URL. Use one like http://127.0.0.1:7070"
        ))
    })
}

/// Set to send tokens unencrypted, for example within a cluster.
const PLAIN_HTTP: &str = "TRUEUP_PLAIN_HTTP";

/// Refuses to send tokens and passwords unencrypted over a network.
fn check_encrypted(url: &Url, allowed: bool) -> Result<(), ClientError> {
    if url.scheme() == "https" || is_here(url) || allowed {
        return Ok(());
    }
    Err(ClientError::Protocol(format!(
        "{url} is not encrypted, so everybody on the way could read the token. Use https://, or set \
         {PLAIN_HTTP}=1 if nobody else is on that network"
    )))
}

/// Whether a status reports a change: 202 for one that must converge, 201 for a new object.
pub(crate) fn is_change(status: StatusCode) -> bool {
    matches!(status, StatusCode::ACCEPTED | StatusCode::CREATED)
}

/// The query parameter of a dry run.
const DRY_RUN: &str = "dry_run=true";

/// Whether this is the response to a dry run.
fn is_preview(response: &Response) -> bool {
    response.url().query().is_some_and(|query| query.split('&').any(|one| one == DRY_RUN))
}

/// Installs the TLS provider: reqwest panics without one.
fn install_cryptography() {
    // An error means that a provider is already installed.
    let _installed = rustls::crypto::ring::default_provider().install_default();
}

/// Whether the URL is a loopback address.
fn is_here(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        host == "localhost"
            || host
                .trim_matches(['[', ']'])
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_url_is_refused_with_an_example() {
        for address in ["", "trueup", "127.0.0.1:7070", "ftp://trueup", "unix:/run/trueup"] {
            let error = Client::new(address, "t").unwrap_err();
            assert!(error.to_string().contains("http://127.0.0.1:7070"), "{address}: {error}");
        }
    }

    /// S44: secrets in URLs.
    #[test]
    fn s44_url_with_password_is_rejected_without_repeating_it() {
        for address in
            ["http://user:canary@trueup", "https://canary@trueup:1/x", "ftp://a:canary@b"]
        {
            let error = Client::new(address, "t").unwrap_err();
            assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
        }
    }

    /// L2: a token is sent encrypted, or does not leave this machine.
    #[test]
    fn tokens_are_not_sent_unencrypted_over_a_network() {
        for (address, sent) in [
            ("http://127.0.0.1:7070", true),
            ("https://trueup.example", true),
            ("http://trueup.example", false),
            ("http://10.0.0.7:7070", false),
        ] {
            let url = Url::parse(address).unwrap();
            assert_eq!(check_encrypted(&url, false).is_ok(), sent, "{address}");
            assert!(check_encrypted(&url, true).is_ok());
        }
        let error = Client::new("http://trueup.example", "canary").unwrap_err().to_string();
        assert!(error.contains("https://") && !error.contains("canary"), "{error}");
    }

    #[test]
    fn loopback_addresses_are_recognised() {
        for (address, here) in [
            ("http://127.0.0.1:7070", true),
            ("http://[::1]:7070", true),
            ("http://localhost", true),
            ("http://trueup.example", false),
        ] {
            assert_eq!(is_here(&Url::parse(address).unwrap()), here, "{address}");
        }
    }
}
