//! Answering connections: with a limit to everything that a caller could make endless.
//!
//! axum's own server has no time-out for headers, so one slow caller could hold a connection for
//! ever. This one has, and it ends in order: what is being answered is answered, nothing else is.

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

/// What a connection may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long a request's headers may take to arrive, and a connection may rest between two.
    pub headers: Duration,
    /// How many headers a request may have.
    pub header_count: usize,
    /// How many bytes of them are kept.
    pub header_bytes: usize,
    /// How many connections there may be.
    pub connections: usize,
    /// How long what is being answered may take once it is time to stop.
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

/// Answers connections until `stop`; then finishes what was begun, within bounds.
///
/// # Errors
/// When the listener is broken for good.
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
            Some(ended) = connections.join_next(), if !connections.is_empty() => told(ended),
            accepted = listener.accept(), if has_room => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(answer(stream, router.clone(), limits, stop.clone()));
                }
                Err(error) if is_passing(&error) => {
                    tracing::debug!(%error, "a connection could not be taken");
                    // Out of files or memory: the next try at once would fail alike.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => return Err(error),
            },
        }
    }
    // Whoever comes now is refused by the kernel.
    drop(listener);
    drain(connections, limits.drain).await;
    Ok(())
}

/// Waits until what was begun is answered, but not for ever.
async fn drain(mut connections: JoinSet<()>, within: Duration) {
    let ended = async {
        while let Some(ended) = connections.join_next().await {
            told(ended);
        }
    };
    if tokio::time::timeout(within, ended).await.is_err() {
        tracing::warn!("some answers did not end in time and were cut");
    }
}

fn told(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection ended by a defect");
    }
}

async fn answer(stream: TcpStream, router: Router, limits: Limits, stop: CancellationToken) {
    // Small answers go out at once; where that cannot be set, they go out a little later.
    let _slower = stream.set_nodelay(true);
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
        tracing::trace!(%error, "a connection broke");
    }
}

/// Errors of one connection, or of a busy moment; anything else means that the listener is broken.
fn is_passing(error: &io::Error) -> bool {
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
