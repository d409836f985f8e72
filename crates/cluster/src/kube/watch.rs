//! One watch: from the version of a list, for about twenty seconds.
//!
//! Watches are short so that a silent one is detected. A healthy server sends at least a bookmark
//! before it closes; one that sends nothing for longer is considered unreachable, even if the
//! connection is open.

use std::pin::Pin;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use http::Method;
use kube::core::WatchEvent as KubeEvent;
use serde_json::Value;
use trueup_model::key::Kind;

use super::Limits;
use super::address::Address;
use super::answer::{call_error, tidy};
use super::call::{Content, request, timed_out, transport_error};
use crate::verbs::{CallError, Scope, WatchEvent};

/// How long the server keeps a watch open.
const OPEN: &str = "20";
/// How long a watch may be silent.
pub(super) const SILENCE: Duration = Duration::from_secs(30);

type Events = Pin<Box<dyn Stream<Item = kube::Result<KubeEvent<Value>>> + Send>>;

enum State {
    Start(kube::Client, Limits, Address),
    Open(Events, Duration),
    Over,
}

/// Opens the watch when it is first polled. An error ends the stream.
pub(super) fn stream(
    client: kube::Client,
    limits: Limits,
    kind: Kind,
    from: &str,
) -> BoxStream<'static, Result<WatchEvent, CallError>> {
    let address = Address::all(kind)
        .select(kind, Scope::Ours)
        .with("watch", "true")
        .with("allowWatchBookmarks", "true")
        .with("resourceVersion", from)
        .with("timeoutSeconds", OPEN);
    stream::unfold(State::Start(client, limits, address), move |state| async move {
        let (mut events, silence) = match state {
            State::Start(client, limits, address) => {
                match open(&client, limits.deadline, &address, kind).await {
                    Ok(events) => (events, limits.silence),
                    Err(error) => return Some((Err(error), State::Over)),
                }
            }
            State::Open(events, silence) => (events, silence),
            State::Over => return None,
        };
        match tokio::time::timeout(silence, events.next()).await {
            Err(_) => Some((Err(timed_out(silence)), State::Over)),
            Ok(None) => None,
            Ok(Some(event)) => match watch_event(event, kind) {
                Ok(event) => Some((Ok(event), State::Open(events, silence))),
                Err(error) => Some((Err(error), State::Over)),
            },
        }
    })
    .boxed()
}

async fn open(
    client: &kube::Client,
    deadline: Duration,
    address: &Address,
    kind: Kind,
) -> Result<Events, CallError> {
    let request = request(Method::GET, address, Content::Nothing)?;
    match tokio::time::timeout(deadline, client.request_events::<Value>(request)).await {
        Err(_) => Err(timed_out(deadline)),
        Ok(Err(error)) => Err(stream_error(&error, kind)),
        Ok(Ok(events)) => Ok(Box::pin(events)),
    }
}

fn watch_event(event: kube::Result<KubeEvent<Value>>, kind: Kind) -> Result<WatchEvent, CallError> {
    match event {
        Ok(KubeEvent::Added(mut object) | KubeEvent::Modified(mut object)) => {
            tidy(&mut object, kind);
            Ok(WatchEvent::Present(object))
        }
        Ok(KubeEvent::Deleted(mut object)) => {
            tidy(&mut object, kind);
            Ok(WatchEvent::Gone(object))
        }
        Ok(KubeEvent::Bookmark(bookmark)) => {
            Ok(WatchEvent::Bookmark(bookmark.metadata.resource_version))
        }
        Ok(KubeEvent::Error(status)) => Err(call_error(&status, kind, None)),
        Err(error) => Err(stream_error(&error, kind)),
    }
}

pub(super) fn stream_error(error: &kube::Error, kind: Kind) -> CallError {
    match error {
        kube::Error::Api(status) => call_error(status, kind, None),
        other => transport_error(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::stub::{answered_with, client};
    use super::*;
    use crate::verbs::Cluster;

    /// All events of a watch whose server sends these lines and closes.
    async fn events(lines: &str, status: &str) -> Vec<Result<WatchEvent, CallError>> {
        let response =
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{lines}", lines.len());
        answered_with(&response, async |kube| {
            kube.watch(Kind::Secret, "5".to_owned()).collect::<Vec<_>>().await
        })
        .await
    }

    #[tokio::test]
    async fn f28_silent_watch_times_out() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut kube = client(listener.local_addr().unwrap().port());
        kube.limits.silence = Duration::from_millis(50);
        let events = kube.watch(Kind::Secret, "5".to_owned()).collect::<Vec<_>>();
        let server = async {
            let (mut held, _) = listener.accept().await.unwrap();
            tokio::io::AsyncWriteExt::write_all(
                &mut held,
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            )
            .await
            .unwrap();
            held
        };
        let (events, _held) = tokio::join!(events, server);
        assert!(matches!(&events[..], [Err(CallError::Unanswered(_))]), "{events:?}");
    }

    #[tokio::test]
    async fn expired_version_requires_a_new_list() {
        let gone = json!({ "kind": "Status", "code": 410, "reason": "Expired" });
        let event = json!({ "type": "ERROR", "object": gone }).to_string() + "\n";
        assert_eq!(events(&event, "200 OK").await, [Err(CallError::Expired)]);
        assert_eq!(events(&gone.to_string(), "410 Gone").await, [Err(CallError::Expired)]);
    }

    #[tokio::test]
    async fn watch_yields_all_events_and_ends_with_the_server() {
        let object = json!({ "metadata": { "name": "a", "managedFields": [] } });
        let position = json!({
            "kind": "Secret", "apiVersion": "v1", "metadata": { "resourceVersion": "9" },
        });
        let lines = [
            json!({ "type": "ADDED", "object": object }).to_string(),
            json!({ "type": "DELETED", "object": object }).to_string(),
            json!({ "type": "BOOKMARK", "object": position }).to_string(),
            r#"{ "type": "MODIFIED", "obj"#.to_owned(),
        ]
        .join("\n");
        let whole = json!({ "kind": "Secret", "apiVersion": "v1", "metadata": { "name": "a" } });
        let expected = [
            Ok(WatchEvent::Present(whole.clone())),
            Ok(WatchEvent::Gone(whole)),
            Ok(WatchEvent::Bookmark("9".to_owned())),
        ];
        assert_eq!(events(&lines, "200 OK").await, expected);
    }
}
