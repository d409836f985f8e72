//! Pod logs: streamed, never cached; long lines are split.

use futures::io::{AsyncBufRead, AsyncBufReadExt};
use futures::stream::{BoxStream, unfold};
use futures::{AsyncReadExt, StreamExt};
use http::Method;
use trueup_model::key::{Kind, ResourceKey};

use super::Kube;
use super::address::Address;
use super::call::{Content, DEADLINE, request, timed_out};
use super::watch::stream_error;
use crate::verbs::CallError;

/// The longest line that is not split, in bytes.
const LONGEST: u64 = 16 * 1024;
/// The container that every pod of ours has.
const CONTAINER: &str = "main";

impl Kube {
    /// A pod's newest lines, and with `follow` those to come.
    ///
    /// # Errors
    /// The pod does not exist, or its node is unreachable.
    pub async fn log(
        &self,
        namespace: &str,
        pod: &str,
        tail: u32,
        follow: bool,
    ) -> Result<BoxStream<'static, Result<String, CallError>>, CallError> {
        let key = ResourceKey::new(Kind::Pod, namespace, pod);
        let address = Address::part(&key, "log")?
            .with("container", CONTAINER)
            .with("tailLines", &tail.to_string())
            .with("follow", &follow.to_string());
        let request = request(Method::GET, &address, Content::Nothing)?;
        match tokio::time::timeout(DEADLINE, self.watcher.request_stream(request)).await {
            Err(_) => Err(timed_out(DEADLINE)),
            Ok(Err(error)) => Err(stream_error(&error, Kind::Pod)),
            Ok(Ok(body)) => Ok(lines(Box::pin(body)).boxed()),
        }
    }
}

fn lines<R: AsyncBufRead + Send + Unpin + 'static>(
    reader: R,
) -> impl futures::Stream<Item = Result<String, CallError>> {
    unfold(Some(reader), async |reader| {
        let mut reader = reader?;
        let mut line = Vec::new();
        // A longer line is returned in several parts.
        let read = (&mut reader).take(LONGEST).read_until(b'\n', &mut line).await;
        match read {
            Ok(0) => None,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                Some((Ok(text.trim_end_matches(['\n', '\r']).to_owned()), Some(reader)))
            }
            Err(error) => Some((Err(CallError::Unanswered(error.to_string())), None)),
        }
    })
}

#[cfg(test)]
mod tests {
    use futures::io::Cursor;

    use super::super::stub::answered_with;
    use super::*;

    #[tokio::test]
    async fn long_lines_are_split() {
        let long = "x".repeat(20_000);
        let text = format!("one\r\ntwo\n{long}\nlast");
        let read_lines: Vec<String> =
            lines(Cursor::new(text.into_bytes())).map(Result::unwrap).collect().await;
        assert_eq!(read_lines.len(), 5);
        assert_eq!(
            (read_lines[0].as_str(), read_lines[1].as_str(), read_lines[4].as_str()),
            ("one", "two", "last")
        );
        assert_eq!(read_lines[2].len() + read_lines[3].len(), 20_000);
    }

    #[tokio::test]
    async fn unreachable_node_is_an_error_not_an_empty_log() {
        let response = "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 7\r\n\r\nno node";
        let answer =
            answered_with(response, async |kube| kube.log("shop", "web-1", 10, false).await.err());
        assert!(answer.await.is_some());
    }

    #[tokio::test]
    async fn name_with_path_characters_is_rejected() {
        let kube = super::super::stub::client(1);
        for pod in ["../secrets", "a/b", "", "a?b"] {
            let refused = kube.log("shop", pod, 1, false).await.err();
            assert!(matches!(refused, Some(CallError::Refused(_))), "{pod}: {refused:?}");
        }
    }
}
