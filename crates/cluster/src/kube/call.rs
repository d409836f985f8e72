//! One request and its answer, under a deadline.
//!
//! The server is given less time than we wait, so that in most cases it is the server who says that
//! it gave up, and the connection can be used again.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Request, StatusCode};
use kube::client::Body;
use kube::core::Status;
use serde_json::Value;
use trueup_model::key::Kind;

use super::Kube;
use super::address::Address;
use super::answer::refusal;
use crate::verbs::CallError;

/// The longest a call takes.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// The longest that making a connection takes: a dead address must not look like a lost answer.
pub(super) const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// The time the server gets.
const SERVER_LIMIT: &str = "8s";

/// What a request carries.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content<'a> {
    Nothing,
    /// Nothing, and of each object only the metadata is wanted back.
    MetadataOnly,
    /// Nothing, and all kinds that the server has are wanted back, in one answer.
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
            // JSON is YAML; this is the name server-side apply goes by.
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

/// What the server said.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) retry_after: Option<Duration>,
    body: Bytes,
}

impl Reply {
    /// The object in a good answer.
    pub(super) fn into_object(self, kind: Kind) -> Result<Value, CallError> {
        if !self.status.is_success() {
            return Err(refusal(&self.failure(), kind, self.retry_after));
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| CallError::Server(format!("its answer is not JSON: {error}")))
    }

    /// The words of a bad answer. Proxies and unknown paths answer in plain text.
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
    /// Sends a request and waits for the whole answer, good or bad.
    pub(super) async fn ask(
        &self,
        method: Method,
        address: Address,
        content: Content<'_>,
    ) -> Result<Reply, CallError> {
        self.ask_as(&self.client, method, address, content).await
    }

    /// The same with this credential.
    pub(super) async fn ask_as(
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
            Ok(outcome) => outcome.map_err(|error| broken(&error)),
            Err(_) => Err(late(limit)),
        }
    }
}

/// A request as the API server wants it.
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

/// No answer within this time.
pub(super) fn late(limit: Duration) -> CallError {
    CallError::Unanswered(format!("nothing for {} seconds", limit.as_secs_f32()))
}

/// What a failure of the transport means. Only a connection that never came to be proves that
/// nothing was sent.
pub(super) fn broken(error: &kube::Error) -> CallError {
    let story = story(error);
    match error {
        kube::Error::Api(status) => CallError::Server(status.message.clone()),
        kube::Error::Auth(_) => CallError::Forbidden(story),
        _ if never_connected(error) => CallError::Unreachable(story),
        _ => CallError::Unanswered(story),
    }
}

/// The HTTP client names the stage it failed at in its text only; its type is not ours to import.
fn never_connected(error: &kube::Error) -> bool {
    chain(error).any(|cause| cause.to_string() == "client error (Connect)")
}

/// The last cause says most; the outer ones only repeat "client error".
fn story(error: &kube::Error) -> String {
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

    async fn answered_with(words: &str) -> CallError {
        stub::answered_with(words, async |kube| kube.list(Kind::Pod, Scope::Ours).await)
            .await
            .unwrap_err()
    }

    #[tokio::test]
    async fn a_refused_connection_means_that_nothing_was_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let error = client(port).list(Kind::Pod, Scope::Ours).await.unwrap_err();
        assert!(matches!(error, CallError::Unreachable(_)), "{error:?}");
    }

    #[tokio::test]
    async fn a_connection_lost_after_sending_leaves_the_effect_open() {
        let error = answered_with("").await;
        assert!(matches!(error, CallError::Unanswered(_)), "{error:?}");
        let error = answered_with("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"kind\":").await;
        assert!(matches!(error, CallError::Unanswered(_)), "{error:?}");
    }

    #[tokio::test]
    async fn f29_a_call_that_hangs_ends_at_its_deadline_and_may_have_been_carried_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut kube = client(listener.local_addr().unwrap().port());
        kube.limits.deadline = Duration::from_millis(50);
        // The server takes the connection and never says anything.
        let (error, _held) =
            tokio::join!(kube.list(Kind::Pod, Scope::Ours), async { listener.accept().await });
        assert!(matches!(error, Err(CallError::Unanswered(_))), "{error:?}");
    }

    #[tokio::test]
    async fn a_server_that_asks_to_slow_down_says_for_how_long() {
        let error = answered_with(
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nslow",
        )
        .await;
        assert_eq!(error, CallError::Throttled { after: Duration::from_secs(7) });
    }
}
