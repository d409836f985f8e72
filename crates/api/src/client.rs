//! A typed client of the API, one method per operation and named like it.
//!
//! The command line is built on it alone, so whatever a person can do there a program can do with
//! the same calls, and a route without a method here is a route nobody has tried to use.

mod access;
mod domain;
mod dry_run;
mod endpoint;
mod error;
mod event;
mod finding;
mod freeze;
mod log;
mod path;
mod preview_request;
mod project;
mod secret;
mod service;
mod sse;
mod template;
mod transition;
mod variable;
mod volume;
mod wake;
mod watch;
mod why;

use std::sync::PoisonError;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use access::RawAnswer;
pub use dry_run::DryRunClient;
pub use error::ClientError;
pub use log::{LogQuery, Logs};
pub use project::AcceptedProject;
pub use service::{ServiceQuery, Terms};
pub use wake::WakeQuery;
pub use watch::Watch;

use self::dry_run::Seen;
use self::error::refusal;
use self::path::segment;
use crate::cluster::ClusterList;
use crate::plan::{Plan, PlanList, PlanManifest};
use crate::preview::Preview;
use crate::quota::{Amounts, Quota};
use crate::service::Service;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a whole request may take. A watch has no such end.
const REQUEST: Duration = Duration::from_secs(30);
/// How long a watch may be silent. The server sends a comment every 15 seconds, so this much
/// silence means that the connection is dead and nobody said so.
const IDLE: Duration = Duration::from_secs(60);

/// Speaks to one Trueup as one principal.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    headers: HeaderMap,
    /// Where to leave previews, if that is all it asks for.
    seen: Option<Seen>,
}

/// What became of a service's declaration or deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The service as it is now.
    pub service: Service,
    /// Whether this request changed anything.
    pub changed: bool,
}

impl Client {
    /// A client of the Trueup at this address (`http://127.0.0.1:7070`), with this token.
    ///
    /// # Errors
    /// When the address or the token cannot be used at all. Nothing is sent yet.
    pub fn new(base_url: &str, token: &str) -> Result<Self, ClientError> {
        let url = address(base_url)?;
        let mut bearer = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
            ClientError::Protocol(
                "the token holds characters that no token has. Copy it again, without line breaks"
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
        Ok(Self { http, base, headers, seen: None })
    }

    /// The same client, speaking for this org. Only operators need it: a token has its org.
    ///
    /// # Errors
    /// When the org's name cannot be sent.
    pub fn with_org(mut self, org: &str) -> Result<Self, ClientError> {
        let value = HeaderValue::try_from(org).map_err(|_| {
            ClientError::Protocol(format!("`{org}` is not the name of an org. Check its spelling"))
        })?;
        self.headers.insert("trueup-org", value);
        Ok(self)
    }

    /// The address it speaks to, without a slash at the end.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.base
    }

    /// Every plan.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn plan_list(&self) -> Result<PlanList, ClientError> {
        self.get("/v1/plans").await
    }

    /// Sells a plan, or sells it otherwise. Only operators may.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn plan_put(
        &self,
        name: &str,
        manifest: &PlanManifest,
    ) -> Result<(Plan, bool), ClientError> {
        let path = format!("/v1/plans/{}", segment(name)?);
        let (status, plan) = self.put(&path, manifest).await?;
        Ok((plan, is_change(status)))
    }

    /// What the org may have and what of it is taken.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn quota_get(&self) -> Result<Quota, ClientError> {
        self.get("/v1/quota").await
    }

    /// Sets the most an org may have. Only operators may.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn quota_put(&self, limit: &Amounts) -> Result<Quota, ClientError> {
        let (_, quota) = self.put("/v1/quota", limit).await?;
        Ok(quota)
    }

    /// Every cluster.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn cluster_list(&self) -> Result<ClusterList, ClientError> {
        self.get("/v1/clusters").await
    }

    /// Whether the process is alive.
    ///
    /// # Errors
    /// When it is not, or cannot be asked.
    pub async fn health(&self) -> Result<(), ClientError> {
        self.send(self.request(Method::GET, "/healthz"), "/healthz").await.map(drop)
    }

    /// Whether it can serve requests.
    ///
    /// # Errors
    /// When it cannot yet, or cannot be asked.
    pub async fn ready(&self) -> Result<(), ClientError> {
        self.send(self.request(Method::GET, "/readyz"), "/readyz").await.map(drop)
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
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

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let response = self.send(self.request(Method::GET, path), path).await?;
        self.body(response, path).await
    }

    async fn put<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<(StatusCode, T), ClientError> {
        let request = self.request(Method::PUT, path).json(body);
        let response = self.send(request, path).await?;
        let status = response.status();
        Ok((status, self.body(response, path).await?))
    }

    async fn remove(&self, path: &str) -> Result<(), ClientError> {
        let response = self.send(self.request(Method::DELETE, path), path).await?;
        if is_preview(&response) { self.body(response, path).await } else { Ok(()) }
    }

    /// Sends, and turns every answer that is no success into an error.
    async fn send(&self, request: RequestBuilder, path: &str) -> Result<Response, ClientError> {
        let url = self.url(path);
        let response = request
            .send()
            .await
            .map_err(|source| ClientError::Unreachable { url: url.clone(), source })?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(refusal(response, &url).await)
    }

    async fn body<T: DeserializeOwned>(
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
                "the answer from {url} cannot be read ({error}). Check that the address is \
                 Trueup's and that client and server have the same version"
            ))
        })
    }
}

/// Reads an address. One that holds a password is refused and not repeated: addresses are shown,
/// logged and kept, and a token has a header of its own.
fn address(text: &str) -> Result<Url, ClientError> {
    let url = Url::parse(text).ok();
    if url.as_ref().is_some_and(|url| !url.username().is_empty() || url.password().is_some()) {
        let said =
            "the address holds a user or a password. Leave it out and pass the token by itself";
        return Err(ClientError::Protocol(said.to_owned()));
    }
    let is_ours = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    url.filter(is_ours).ok_or_else(|| {
        ClientError::Protocol(format!(
            "`{text}` is not an address of Trueup. Write it like http://127.0.0.1:7070"
        ))
    })
}

/// Work that must converge answers 202 and a new thing 201; 200 means that it was so already.
fn is_change(status: StatusCode) -> bool {
    matches!(status, StatusCode::ACCEPTED | StatusCode::CREATED)
}

/// What asks for a preview.
const DRY_RUN: &str = "dry_run=true";

/// Whether this answers a request for a preview.
fn is_preview(response: &Response) -> bool {
    response.url().query().is_some_and(|query| query.split('&').any(|one| one == DRY_RUN))
}

/// The HTTP library comes without cryptography of its own and panics where none is installed.
fn install_cryptography() {
    // An error means that somebody installed one before: good as well.
    let _installed = rustls::crypto::ring::default_provider().install_default();
}

/// Whether the address is this machine's loopback.
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
    fn an_address_that_is_none_is_refused_with_an_example() {
        for address in ["", "trueup", "127.0.0.1:7070", "ftp://trueup", "unix:/run/trueup"] {
            let error = Client::new(address, "t").unwrap_err();
            assert!(error.to_string().contains("http://127.0.0.1:7070"), "{address}: {error}");
        }
    }

    /// S44: secrets in addresses.
    #[test]
    fn s44_a_password_in_an_address_is_refused_and_not_repeated() {
        for address in
            ["http://user:canary@trueup", "https://canary@trueup:1/x", "ftp://a:canary@b"]
        {
            let error = Client::new(address, "t").unwrap_err();
            assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
        }
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
