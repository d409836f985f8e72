//! The HTTP server: accepts connections up to a limit, and shuts down gracefully.
//!
//! At shutdown this server drains: requests in flight are answered, new ones are not accepted.

use std::io;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::front::connection::{Peer, answer};
use crate::front::proxy::TrustedProxies;
use crate::front::tls::Certificate;

/// Limits of the server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Timeout for the TLS handshake and for the headers of a request.
    pub headers: Duration,
    /// How long a connection may be idle between two requests. Longer than the connection pools of
    /// common clients and proxies keep one, so that they do not reuse a closed connection.
    pub idle: Duration,
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
            idle: Duration::from_secs(120),
            header_count: 64,
            header_bytes: 32 * 1024,
            connections: 8192,
            drain: Duration::from_secs(5),
        }
    }
}

/// A socket to accept connections on, and how to treat them.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    certificate: Option<Certificate>,
    proxies: TrustedProxies,
    only_proxies: bool,
}

impl Listener {
    /// Plain HTTP from anyone who can connect: for loopback addresses.
    #[must_use]
    pub const fn local(socket: TcpListener, proxies: TrustedProxies) -> Self {
        Self { socket, certificate: None, proxies, only_proxies: false }
    }

    /// HTTPS, with HTTP/2, from anyone who can connect.
    #[must_use]
    pub const fn tls(
        socket: TcpListener,
        certificate: Certificate,
        proxies: TrustedProxies,
    ) -> Self {
        Self { socket, certificate: Some(certificate), proxies, only_proxies: false }
    }

    /// Plain HTTP from these proxies only; they terminate TLS. Other connections are closed.
    #[must_use]
    pub const fn behind(socket: TcpListener, proxies: TrustedProxies) -> Self {
        Self { socket, certificate: None, proxies, only_proxies: true }
    }

    /// Whether to serve a connection from this address.
    fn admits(&self, peer: std::net::IpAddr) -> bool {
        !self.only_proxies || self.proxies.contain(peer)
    }
}

/// Serves connections until `stop`, then drains them.
///
/// # Errors
/// When the listener fails permanently.
pub async fn serve(
    listener: Listener,
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
            accepted = listener.socket.accept(), if has_room => match accepted {
                Ok((stream, peer)) if listener.admits(peer.ip()) => {
                    let encrypted = listener.certificate.is_some() || listener.only_proxies;
                    let proxies = listener.proxies.clone();
                    let peer = Peer { address: peer.ip(), proxies, encrypted };
                    let work = (router.clone(), limits, stop.clone());
                    connections.spawn(greet(stream, peer, listener.certificate.clone(), work));
                }
                Ok((_, peer)) => {
                    tracing::debug!(%peer, "closed a connection: it is not from a trusted proxy");
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

/// Performs the TLS handshake, if there is one, and serves the connection.
async fn greet(
    stream: TcpStream,
    peer: Peer,
    certificate: Option<Certificate>,
    (router, limits, stop): (Router, Limits, CancellationToken),
) {
    // Sends small responses at once. If it cannot be set they are only sent later.
    let _ignored = stream.set_nodelay(true);
    let Some(certificate) = certificate else {
        return answer(stream, false, peer, router, limits, stop).await;
    };
    let handshake = tokio::time::timeout(limits.headers, certificate.handshake(stream));
    match handshake.await {
        Ok(Ok(stream)) => {
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            answer(stream, is_http2, peer, router, limits, stop).await;
        }
        Ok(Err(error)) => tracing::trace!(%error, "TLS handshake failed"),
        Err(_) => tracing::trace!("TLS handshake timed out"),
    }
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
