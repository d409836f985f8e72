//! The HTTP server: accepts connections up to a limit, and shuts down gracefully.
//!
//! At shutdown this server drains: requests in flight are answered, new ones are not accepted.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
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
    /// How long a client may accept nothing of a response.
    pub stalled: Duration,
    /// The most headers of a request.
    pub header_count: usize,
    /// The most bytes of headers.
    pub header_bytes: usize,
    /// The most open connections.
    pub connections: usize,
    /// The most open connections of one client, unless it is a proxy or on this machine.
    pub connections_each: usize,
    /// How long requests in flight may take at shutdown.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            headers: Duration::from_secs(30),
            idle: Duration::from_secs(120),
            stalled: Duration::from_secs(60),
            header_count: 64,
            header_bytes: 32 * 1024,
            connections: 8192,
            connections_each: 1024,
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
    fn admits(&self, peer: IpAddr) -> bool {
        !self.only_proxies || self.proxies.contain(peer)
    }

    /// The most connections of this address. A proxy connects for all its clients.
    fn most_of(&self, address: IpAddr, limits: Limits) -> usize {
        let is_shared = address.is_loopback() || self.proxies.contain(address);
        if is_shared { limits.connections } else { limits.connections_each }
    }
}

/// The open connections of each client. Clones share them.
#[derive(Debug, Clone, Default)]
struct Clients(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

impl Clients {
    /// Counts a connection until the guard is dropped; `None` if the client has this many already.
    fn enter(&self, address: IpAddr, most: usize) -> Option<Counted> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let theirs = open.entry(address).or_default();
        if *theirs >= most {
            return None;
        }
        *theirs = theirs.saturating_add(1);
        drop(open);
        Some(Counted { clients: self.clone(), address })
    }
}

/// A counted connection.
#[derive(Debug)]
struct Counted {
    clients: Clients,
    address: IpAddr,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.clients.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(theirs) = open.get_mut(&self.address) {
            *theirs = theirs.saturating_sub(1);
            if *theirs == 0 {
                open.remove(&self.address);
            }
        }
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
    let clients = Clients::default();
    loop {
        let has_room = connections.len() < limits.connections;
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(ended) = connections.join_next(), if !connections.is_empty() => log_panic(ended),
            accepted = listener.socket.accept(), if has_room => match accepted {
                Ok(accepted) => {
                    let work = (router.clone(), limits, stop.clone());
                    if let Some(answered) = admit(&listener, &clients, accepted, work) {
                        connections.spawn(answered);
                    }
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

/// The work for an accepted connection; `None` if it is closed instead.
fn admit(
    listener: &Listener,
    clients: &Clients,
    (stream, peer): (TcpStream, SocketAddr),
    work: (Router, Limits, CancellationToken),
) -> Option<impl Future<Output = ()> + use<>> {
    if !listener.admits(peer.ip()) {
        tracing::debug!(%peer, "closed a connection: it is not from a trusted proxy");
        return None;
    }
    let address = peer.ip().to_canonical();
    let Some(counted) = clients.enter(address, listener.most_of(address, work.1)) else {
        tracing::debug!(%peer, "closed a connection: its client has too many");
        return None;
    };
    let encrypted = listener.certificate.is_some() || listener.only_proxies;
    let peer = Peer { address: peer.ip(), proxies: listener.proxies.clone(), encrypted };
    let certificate = listener.certificate.clone();
    Some(async move {
        let _counted = counted;
        greet(stream, peer, certificate, work).await;
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_cannot_have_every_connection() {
        let (clients, address) = (Clients::default(), IpAddr::from([192, 0, 2, 1]));
        let mut held: Vec<Counted> =
            (0..2).map(|_| clients.enter(address, 2).expect("a connection")).collect();
        assert!(clients.enter(address, 2).is_none());
        assert!(clients.enter(IpAddr::from([192, 0, 2, 2]), 2).is_some());
        held.pop();
        assert!(clients.enter(address, 2).is_some());
        held.clear();
        assert!(clients.0.lock().unwrap().is_empty(), "nothing is kept of clients that left");
    }
}
