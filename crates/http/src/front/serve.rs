//! The HTTP server: limits on connections, headers and time, and graceful shutdown.
//!
//! axum's own server has no timeout for headers, so a slow client could hold a connection forever.
//! At shutdown this server drains: requests in flight are answered, new ones are not accepted.

use std::io;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// Limits of the server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Timeout for the headers of a request, and for an idle connection.
    pub headers: Duration,
    /// The most headers of a request.
    pub header_count: usize,
    /// The most bytes of headers.
    pub header_bytes: usize,
    /// The most open connections.
    pub connections: usize,
    /// How long requests in flight may take at shutdown.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            headers: Duration::from_secs(30),
            header_count: 64,
            header_bytes: 32 * 1024,
            connections: 8192,
            drain: Duration::from_secs(5),
        }
    }
}

/// Serves connections until `stop`, then drains them.
///
/// # Errors
/// When the listener fails permanently.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) -> io::Result<()> {
    let mut connections = JoinSet::new();
    loop {
        let has_room = connections.len() < limits.connections;
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(ended) = connections.join_next(), if !connections.is_empty() => log_panic(ended),
            accepted = listener.accept(), if has_room => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(answer(stream, router.clone(), limits, stop.clone()));
                }
                Err(error) if is_transient(&error) => {
                    tracing::debug!(%error, "cannot accept a connection; retrying");
                    // Out of files or memory: an immediate retry would fail as well.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => return Err(error),
            },
        }
    }
    // From here on the kernel refuses new connections.
    drop(listener);
    drain(connections, limits.drain).await;
    Ok(())
}

/// Waits until the requests in flight are answered, up to a limit.
async fn drain(mut connections: JoinSet<()>, within: Duration) {
    let ended = async {
        while let Some(ended) = connections.join_next().await {
            log_panic(ended);
        }
    };
    if tokio::time::timeout(within, ended).await.is_err() {
        tracing::warn!("shutdown deadline exceeded: closed connections with requests in flight");
    }
}

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "connection task panicked");
    }
}

async fn answer(stream: TcpStream, router: Router, limits: Limits, stop: CancellationToken) {
    // Sends small responses at once. If it cannot be set they are only sent later.
    let _ignored = stream.set_nodelay(true);
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.headers)
        .max_headers(limits.header_count)
        .max_buf_size(limits.header_bytes);
    let service = TowerToHyperService::new(router);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "connection failed");
    }
}

/// Whether an error is transient: of one connection, or a lack of resources.
fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted, OutOfMemory, TimedOut,
    };
    let of_one = matches!(
        error.kind(),
        ConnectionAborted
            | ConnectionRefused
            | ConnectionReset
            | Interrupted
            | OutOfMemory
            | TimedOut
    );
    // Too many open files, of this process (24) or of the machine (23), and no buffers (105).
    of_one || matches!(error.raw_os_error(), Some(23 | 24 | 105))
}
