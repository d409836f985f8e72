//! Live logs of a service: one JSON object per line.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::client::{Client, ClientError, query};
use crate::service::service_path;

/// The longest line that is accepted, in bytes.
const MOST: usize = 1 << 20;

/// One line of a log, or a notice about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// The pod; empty if a notice is about the whole service.
    pub pod: String,
    /// The line that the pod wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// A notice from Trueup, such as a pod whose log cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

/// Which lines to read.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// The number of newest lines of each pod.
    pub tail: Option<u32>,
    /// Whether to follow new lines.
    pub follow: bool,
    /// Only this pod.
    pub pod: Option<String>,
}

impl Client {
    /// The logs of a service's pods.
    ///
    /// # Errors
    /// See [`ClientError`]; the stream also yields errors, and ends after one.
    pub async fn service_logs(
        &self,
        project: &str,
        name_or_id: &str,
        wanted: &LogQuery,
    ) -> Result<Logs, ClientError> {
        let path = format!("{}/logs", service_path(project, name_or_id)?);
        let tail = wanted.tail.map(|tail| tail.to_string());
        let follow = wanted.follow.then_some("true");
        let parameters =
            [("tail", tail.as_deref()), ("follow", follow), ("pod", wanted.pod.as_deref())];
        let path = query(&path, &parameters);
        let response = self.send(self.stream(&path), &path).await?;
        let chunks = Box::pin(response.bytes_stream());
        Ok(Logs {
            url: self.url(&path),
            chunks: Some(chunks),
            rest: Vec::new(),
            ready: VecDeque::new(),
        })
    }
}

type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, reqwest::Error>> + Send>>;

/// A stream of log lines. It ends with the connection, or after an error.
pub struct Logs {
    url: String,
    chunks: Option<Chunks>,
    rest: Vec<u8>,
    ready: VecDeque<Result<LogLine, ClientError>>,
}

impl Logs {
    /// Parses the lines that this chunk completes. An empty line is a keep-alive.
    fn feed(&mut self, chunk: &[u8]) {
        self.rest.extend_from_slice(chunk);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            if line.trim_ascii().is_empty() {
                continue;
            }
            let read = serde_json::from_slice(&line).map_err(|error| self.unreadable(&error));
            let broken = read.is_err();
            self.ready.push_back(read);
            if broken {
                self.chunks = None;
                return;
            }
        }
        if self.rest.len() > MOST {
            self.chunks = None;
            self.ready.push_back(Err(self.unreadable(&"the line is too long")));
        }
    }

    fn unreadable(&self, why: &dyn fmt::Display) -> ClientError {
        ClientError::Protocol(format!(
            "cannot parse a log line from {} ({why}). Check that client and server have the same \
             version",
            self.url
        ))
    }
}

impl Stream for Logs {
    type Item = Result<LogLine, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Poll::Ready(Some(line));
            }
            let Some(chunks) = &mut self.chunks else {
                return Poll::Ready(None);
            };
            match ready!(chunks.as_mut().poll_next(cx)) {
                Some(Ok(chunk)) => self.feed(&chunk),
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

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logs").field("url", &self.url).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use super::*;

    fn over(chunks: &[&str]) -> Vec<Result<LogLine, ClientError>> {
        let chunks: Vec<_> =
            chunks.iter().map(|text| Ok(Bytes::from((*text).to_owned()))).collect();
        let logs = Logs {
            url: "http://t/logs".to_owned(),
            chunks: Some(Box::pin(futures::stream::iter(chunks))),
            rest: Vec::new(),
            ready: VecDeque::new(),
        };
        logs.collect::<Vec<_>>().now_or_never().unwrap()
    }

    #[test]
    fn lines_split_across_chunks_are_joined() {
        let lines =
            over(&["{\"pod\":\"a\",\"li", "ne\":\"x\"}\n\n{\"pod\":\"b\",\"notice\":\"y\"}\n"]);
        let lines: Vec<LogLine> = lines.into_iter().map(Result::unwrap).collect();
        assert_eq!((lines[0].pod.as_str(), lines[0].line.as_deref()), ("a", Some("x")));
        assert_eq!((lines[1].pod.as_str(), lines[1].notice.as_deref()), ("b", Some("y")));
    }

    #[test]
    fn invalid_line_ends_the_stream() {
        let lines = over(&["what\n{\"pod\":\"a\"}\n"]);
        assert_eq!(lines.len(), 1);
        assert!(matches!(lines[0], Err(ClientError::Protocol(_))));
    }
}
