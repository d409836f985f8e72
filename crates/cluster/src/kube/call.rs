//! One request and its response, under a deadline.
//!
//! The server's timeout is shorter than ours, so that in most cases the server itself reports the
//! timeout and the connection can be reused.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Request, StatusCode};
use kube::client::Body;
use kube::core::Status;
use serde::de::DeserializeOwned;
use serde_json::Value;
use trueup_model::key::Kind;

use super::Kube;
use super::address::Address;
use super::answer::call_error;
use crate::verbs::CallError;

/// Deadline of a call.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// Connect timeout. Shorter than the deadline: a dead address must not look like a lost response.
pub(super) const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// The server's own timeout.
const SERVER_LIMIT: &str = "8s";

/// The content of a request, and the form of the response.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content<'a> {
    Nothing,
    /// No body; the response should have only the metadata of each object.
    MetadataOnly,
    /// No body; the response should be aggregated discovery of all kinds.
    Discovery,
    Json(&'a Value),
    Apply(&'a Value),
    MergePatch(&'a Value),
}

impl Content<'_> {
    const fn media_type(self) -> &'static str {
        match self {
            Self::Nothing | Self::MetadataOnly | Self::Discovery | Self::Json(_) => {
                "application/json"
            }
            // The media type of server-side apply; JSON is valid YAML.
            Self::Apply(_) => "application/apply-patch+yaml",
            Self::MergePatch(_) => "application/merge-patch+json",
        }
    }

    const fn accepts(self) -> &'static str {
        match self {
            Self::MetadataOnly => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
            Self::Discovery => {
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
            Self::Nothing | Self::Json(_) | Self::Apply(_) | Self::MergePatch(_) => {
                "application/json"
            }
        }
    }

    fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Nothing | Self::MetadataOnly | Self::Discovery => Vec::new(),
            Self::Json(value) | Self::Apply(value) | Self::MergePatch(value) => {
                value.to_string().into_bytes()
            }
        }
    }
}

/// A response.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) retry_after: Option<Duration>,
    body: Bytes,
}

impl Reply {
    /// The object of a successful response.
    pub(super) fn into_object(self, kind: Kind) -> Result<Value, CallError> {
        self.parsed(kind)
    }

    /// The body of a successful response as this type.
    pub(super) fn parsed<T: DeserializeOwned>(&self, kind: Kind) -> Result<T, CallError> {
        if !self.status.is_success() {
            return Err(call_error(&self.failure(), kind, self.retry_after));
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| CallError::Server(format!("the response is not JSON: {error}")))
    }

    /// The Status of a failed response. Proxies and unknown paths answer in plain text.
    pub(super) fn failure(&self) -> Status {
        let code = self.status.as_u16();
        serde_json::from_slice::<Status>(&self.body)
            .unwrap_or_else(|_| {
                Status::failure(String::from_utf8_lossy(&self.body).trim(), "not a Status")
            })
            .with_code(code)
    }
}

impl Kube {
    /// Sends a request and waits for the whole response, successful or not.
    pub(super) async fn send(
        &self,
        method: Method,
        address: Address,
        content: Content<'_>,
    ) -> Result<Reply, CallError> {
        self.send_as(&self.client, method, address, content).await
    }

    /// Like [`Self::send`], with this client.
    pub(super) async fn send_as(
        &self,
        client: &kube::Client,
        method: Method,
        address: Address,
        content: Content<'_>,
    ) -> Result<Reply, CallError> {
        let address = address.with("timeout", SERVER_LIMIT);
        let request = request(method, &address, content)?;
        let exchange = async {
            let response = client.send(request.map(Body::from)).await?;
            let status = response.status();
            let retry_after = response
                .headers()
                .get(RETRY_AFTER)
                .and_then(|value| value.to_str().ok()?.parse().ok())
                .map(Duration::from_secs);
            let body = response.into_body().collect_bytes().await?;
            Ok(Reply { status, retry_after, body })
        };
        let limit = self.limits.deadline;
        match tokio::time::timeout(limit, exchange).await {
            Ok(outcome) => outcome.map_err(|error| transport_error(&error)),
            Err(_) => Err(timed_out(limit)),
        }
    }
}

/// Builds a request for the API server.
pub(super) fn request(
    method: Method,
    address: &Address,
    content: Content<'_>,
) -> Result<Request<Vec<u8>>, CallError> {
    Request::builder()
        .method(method)
        .uri(address.as_str())
        .header(ACCEPT, content.accepts())
        .header(CONTENT_TYPE, content.media_type())
        .body(content.into_bytes())
        .map_err(|error| CallError::Refused(error.to_string()))
}

/// No response within this time.
pub(super) fn timed_out(limit: Duration) -> CallError {
    CallError::Unanswered(format!("timed out after {} s", limit.as_secs_f32()))
}

/// Maps a transport error. Only a connection that was never established proves that nothing was
/// sent.
pub(super) fn transport_error(error: &kube::Error) -> CallError {
    let cause = root_cause(error);
    match error {
        kube::Error::Api(status) => CallError::Server(status.message.clone()),
        kube::Error::Auth(_) => CallError::Forbidden(cause),
        _ if never_connected(error) => CallError::Unreachable(cause),
        _ => CallError::Unanswered(cause),
    }
}

/// The HTTP client gives the stage of the failure only in its text; its error type is private.
fn never_connected(error: &kube::Error) -> bool {
    chain(error).any(|cause| cause.to_string() == "client error (Connect)")
}

/// The innermost cause; the outer ones only repeat "client error".
fn root_cause(error: &kube::Error) -> String {
    chain(error).last().map(ToString::to_string).unwrap_or_default()
}

fn chain(error: &kube::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let first: &(dyn Error + 'static) = error;
    std::iter::successors(Some(first), |cause| (**cause).source())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::super::stub::{self, client};
    use super::*;
    use crate::verbs::{Cluster, Scope};

    async fn answered_with(response: &str) -> CallError {
        stub::answered_with(response, async |kube| kube.list(Kind::Pod, Scope::Ours).await)
            .await
            .unwrap_err()
    }

    #[tokio::test]
    async fn refused_connection_is_unreachable() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let error = client(port).list(Kind::Pod, Scope::Ours).await.unwrap_err();
        assert!(matches!(error, CallError::Unreachable(_)), "{error:?}");
    }

    #[tokio::test]
    async fn connection_lost_after_sending_is_unanswered() {
        let error = answered_with("").await;
        assert!(matches!(error, CallError::Unanswered(_)), "{error:?}");
        let error = answered_with("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"kind\":").await;
        assert!(matches!(error, CallError::Unanswered(_)), "{error:?}");
    }

    #[tokio::test]
    async fn f29_hanging_call_ends_at_its_deadline_as_unanswered() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut kube = client(listener.local_addr().unwrap().port());
        kube.limits.deadline = Duration::from_millis(50);
        // The server accepts the connection and never responds.
        let (error, _held) =
            tokio::join!(kube.list(Kind::Pod, Scope::Ours), async { listener.accept().await });
        assert!(matches!(error, Err(CallError::Unanswered(_))), "{error:?}");
    }

    #[tokio::test]
    async fn retry_after_header_sets_the_pause() {
        let error = answered_with(
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nslow",
        )
        .await;
        assert_eq!(error, CallError::Throttled { after: Duration::from_secs(7) });
    }
}
