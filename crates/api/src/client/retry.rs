//! Retries of requests that the server refused before they had any effect.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::RETRY_AFTER;

use super::error::ClientError;
use crate::problem::{Code, Problem};

/// How often a request is retried.
const MAX_RETRIES: u32 = 3;
/// The longest pause before a retry, whatever the server asks for.
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// The pause when the server does not name one.
const PAUSE: Duration = Duration::from_secs(1);

/// A retry that is about to happen.
#[derive(Debug)]
pub struct RetryNotice<'a> {
    /// Why the request was refused.
    pub problem: &'a Problem,
    /// How long the client waits first.
    pub pause: Duration,
    /// How many retries are left after this one.
    pub left: u32,
}

/// The retries that are left for a request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Retries {
    left: u32,
    notify: Option<fn(&RetryNotice<'_>)>,
}

impl Retries {
    pub(super) const fn reported_to(notify: fn(&RetryNotice<'_>)) -> Self {
        Self { left: MAX_RETRIES, notify: Some(notify) }
    }

    /// Whether to retry after this error; reports it if so.
    pub(super) fn allow(&mut self, error: &ClientError, pause: Duration) -> bool {
        let ClientError::Problem(problem) = error else { return false };
        let had_no_effect = matches!(problem.code, Code::DatabaseUnavailable | Code::TooBusy);
        if !had_no_effect || self.left == 0 {
            return false;
        }
        self.left -= 1;
        if let Some(notify) = self.notify {
            notify(&RetryNotice { problem, pause, left: self.left });
        }
        true
    }
}

/// The pause that the server asks for.
pub(super) fn pause(response: &Response) -> Duration {
    let text = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let seconds = text.and_then(|text| text.parse().ok());
    seconds.map_or(PAUSE, Duration::from_secs).min(MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;

    use super::*;
    use crate::Client;

    /// A server that refuses the first requests with this code, and counts all of them.
    async fn refusing(code: Code, times: u32) -> (String, Arc<AtomicU32>, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&requests);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _read = stream.read(&mut [0; 4096]).await.unwrap();
                let refused = seen.fetch_add(1, Ordering::Relaxed) < times;
                let problem = serde_json::to_string(&Problem::new(code, "nothing saved")).unwrap();
                let (status, body) =
                    if refused { (code.status(), problem.as_str()) } else { (200, "{}") };
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status} x\r\nRetry-After: 0\r\nConnection: close\r\n\
                     Content-Length: {length}\r\n\r\n{body}"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        (url, requests, tasks)
    }

    /// Whether a request succeeds on such a server, and how many were sent.
    async fn sent(code: Code, times: u32, retries: bool) -> (bool, u32) {
        let (url, requests, _server) = refusing(code, times).await;
        let client = Client::new(&url, "t").unwrap();
        let client = if retries { client.with_retries(|_| ()) } else { client };
        (client.health().await.is_ok(), requests.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn only_requests_without_effect_are_retried() {
        for code in Code::ALL.iter().copied() {
            let retried = matches!(code, Code::DatabaseUnavailable | Code::TooBusy);
            assert_eq!(sent(code, 1, true).await, (retried, 1 + u32::from(retried)), "{code}");
        }
    }

    #[tokio::test]
    async fn retries_end_after_the_third() {
        assert_eq!(sent(Code::DatabaseUnavailable, 3, true).await, (true, 4));
        assert_eq!(sent(Code::DatabaseUnavailable, 4, true).await, (false, 4));
    }

    #[tokio::test]
    async fn client_does_not_retry_unless_asked() {
        assert_eq!(sent(Code::DatabaseUnavailable, 1, false).await, (false, 1));
    }
}
