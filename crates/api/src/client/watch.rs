//! A stream of events that tracks its position, so that its reader can resume.
//!
//! It does not reconnect by itself: whether and how long to retry is the reader's decision.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use reqwest::Response;

use super::ClientError;
use super::sse::{Frame, Parser};
use crate::event::CloudEvent;

type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, reqwest::Error>> + Send>>;

/// A stream of events. It ends with the connection, or after an error.
pub struct Watch {
    url: String,
    chunks: Option<Chunks>,
    parser: Parser,
    ready: VecDeque<Frame>,
    position: Option<String>,
}

impl Watch {
    pub(crate) fn new(response: Response, url: String, after: Option<String>) -> Self {
        Self::over(Box::pin(response.bytes_stream()), url, after)
    }

    fn over(chunks: Chunks, url: String, after: Option<String>) -> Self {
        Self {
            url,
            chunks: Some(chunks),
            parser: Parser::default(),
            ready: VecDeque::new(),
            position: after,
        }
    }

    /// The position of the last yielded event: pass it as `after` to resume.
    #[must_use]
    pub fn position(&self) -> Option<&str> {
        self.position.as_deref()
    }

    fn open(&mut self, frame: Frame) -> Result<CloudEvent, ClientError> {
        let event = serde_json::from_str::<CloudEvent>(&frame.data).map_err(|error| {
            self.chunks = None;
            self.ready.clear();
            ClientError::Protocol(format!(
                "cannot parse an event from {} ({error}). Check that client and server have the \
                 same version",
                self.url
            ))
        })?;
        self.position = frame.id.or_else(|| Some(event.sequence.clone()));
        Ok(event)
    }
}

impl Stream for Watch {
    type Item = Result<CloudEvent, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Poll::Ready(Some(self.open(frame)));
            }
            let Some(chunks) = &mut self.chunks else {
                return Poll::Ready(None);
            };
            match ready!(chunks.as_mut().poll_next(cx)) {
                Some(Ok(chunk)) => match self.parser.feed(&chunk) {
                    Ok(frames) => self.ready.extend(frames),
                    Err(_) => {
                        self.chunks = None;
                        return Poll::Ready(Some(Err(ClientError::Protocol(format!(
                            "an event from {} is too long. Check that the URL is Trueup's",
                            self.url
                        )))));
                    }
                },
                Some(Err(source)) => {
                    self.chunks = None;
                    let url = self.url.clone();
                    return Poll::Ready(Some(Err(ClientError::Unreachable { url, source })));
                }
                None => self.chunks = None,
            }
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("url", &self.url)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use super::*;

    fn over(text: String) -> Watch {
        let chunks = futures::stream::iter([Ok(Bytes::from(text))]);
        Watch::over(Box::pin(chunks), "http://t/watch".to_owned(), Some("3".to_owned()))
    }

    fn take(watch: &mut Watch) -> Option<Result<CloudEvent, ClientError>> {
        watch.next().now_or_never().flatten()
    }

    fn event(sequence: &str) -> String {
        serde_json::json!({
            "specversion": "1.0", "id": "evt_1", "source": "/trueup/user",
            "type": "dev.trueup.ServiceQueued.v1", "subject": "svc_1",
            "time": "2026-01-02T03:04:05Z", "datacontenttype": "application/json",
            "sequence": sequence, "generation": 1, "orgid": "org_1", "hash": "0", "data": {},
        })
        .to_string()
    }

    #[test]
    fn position_follows_the_yielded_events() {
        let mut watch =
            over(format!(": hi\n\nid: 4\ndata: {}\n\nid: 5\ndata: {}\n\n", event("4"), event("5")));
        assert_eq!(watch.position(), Some("3"));
        assert_eq!(take(&mut watch).unwrap().unwrap().sequence, "4");
        assert_eq!(watch.position(), Some("4"));
        assert_eq!(take(&mut watch).unwrap().unwrap().sequence, "5");
        assert!(take(&mut watch).is_none());
        assert_eq!(watch.position(), Some("5"));
    }

    #[test]
    fn invalid_event_ends_the_stream() {
        let mut watch = over("id: 4\ndata: what\n\n".to_owned());
        assert!(matches!(take(&mut watch), Some(Err(ClientError::Protocol(_)))));
        assert!(take(&mut watch).is_none());
        assert_eq!(watch.position(), Some("3"));
    }
}
