//! A proxy on a TCP port in front of the Unix socket of Postgres, which injects faults.
//!
//! It can delay replies, drop all bytes, close connections, strand them, lose the reply to a COMMIT
//! and hold back the reply to a BEGIN. It parses nothing but these two keywords. When the reply to
//! a COMMIT is lost, the commit outcome is unknown to the client, as with a real network fault.

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What the proxy does with the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Forwards everything.
    Pass,
    /// Delays every reply by this long.
    Delay(Duration),
    /// Forwards nothing and keeps connections open.
    Blackhole,
    /// Closes every connection, and every new one.
    Cut,
    /// Forwards the next COMMIT and closes the connection instead of replying; then [`Mode::Pass`].
    LoseCommit,
    /// Forwards every BEGIN and holds its reply until the mode changes; forwards everything else.
    HoldBegin,
}

/// How COMMIT and BEGIN end as simple queries.
const COMMIT: &[u8] = b"COMMIT\0";
const BEGIN: &[u8] = b"BEGIN\0";

/// A running proxy. It stops when this is dropped.
#[derive(Debug)]
pub struct PgProxy {
    port: u16,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    mode: watch::Sender<Mode>,
    lost: AtomicUsize,
    /// The number of connections accepted so far.
    accepted: AtomicUsize,
    /// The number of connections that are stranded, counted from the first one.
    stranded: watch::Sender<usize>,
}

impl PgProxy {
    /// Starts a proxy in front of the server of this URL.
    ///
    /// # Panics
    /// The URL names no Unix socket, or no local port is free.
    pub async fn start(url: &str) -> Self {
        let server = socket_of(url).expect("a test's URL should name a Unix socket");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port should be free");
        let port = listener.local_addr().expect("a listener should have an address").port();
        let mode = watch::Sender::new(Mode::Pass);
        let shared = Arc::new(Shared {
            mode,
            lost: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
            stranded: watch::Sender::new(0),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, server, Arc::clone(&shared)));
        Self { port, shared, _tasks: tasks }
    }

    /// The same URL through this proxy.
    ///
    /// # Panics
    /// The URL has no role or no database.
    #[must_use]
    pub fn url(&self, url: &str) -> String {
        let (role, rest) = url.rsplit_once('@').expect("a test's URL should have a role");
        let (_, database) = rest.split_once('/').expect("a test's URL should have a database");
        format!("{role}@127.0.0.1:{}/{database}", self.port)
    }

    /// Changes the mode from now on.
    pub fn set(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }

    /// Strands all open connections: the peer vanishes without closing them, as in a power loss.
    /// New connections work.
    pub fn strand(&self) {
        self.shared.stranded.send_replace(self.shared.accepted.load(Ordering::SeqCst));
    }

    /// The number of lost replies to a COMMIT.
    #[must_use]
    pub fn lost_commits(&self) -> usize {
        self.shared.lost.load(Ordering::SeqCst)
    }
}

fn socket_of(url: &str) -> Option<PathBuf> {
    let options = PgConnectOptions::from_str(url).ok()?;
    Some(options.get_socket()?.join(format!(".s.PGSQL.{}", options.get_port())))
}

async fn accept(listener: TcpListener, server: PathBuf, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        if *shared.mode.borrow() == Mode::Cut {
            continue;
        }
        let (server, shared) = (server.clone(), Arc::clone(&shared));
        let number = shared.accepted.fetch_add(1, Ordering::SeqCst);
        connections.spawn(async move {
            let served = async {
                // When either side ends, both are dropped here.
                let _ended = serve(client, &server, &shared).await;
            };
            unless_stranded(&shared, number, served).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Serves a connection until it is stranded; from then on it stays open and idle.
async fn unless_stranded(shared: &Shared, number: usize, served: impl Future<Output = ()>) {
    let mut first = shared.stranded.subscribe();
    let stranded = async {
        // The sender lives as long as the proxy.
        let _gone = first.wait_for(|first| number < *first).await;
    };
    tokio::pin!(served);
    tokio::select! {
        () = &mut served => {}
        () = stranded => std::future::pending().await,
    }
}

/// What to do with the next reply on a connection.
#[derive(Debug, Default)]
struct Next {
    lost: AtomicBool,
    held: AtomicBool,
}

async fn serve(client: TcpStream, server: &Path, shared: &Shared) -> io::Result<()> {
    let server = UnixStream::connect(server).await?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let next = Next::default();
    tokio::select! {
        ended = forward_requests(&mut from_client, &mut to_server, shared, &next) => ended,
        ended = forward_replies(&mut from_server, &mut to_client, shared, &next) => ended,
        () = until(shared, |mode| mode == Mode::Cut) => Ok(()),
    }
}

async fn forward_requests(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    shared: &Shared,
    next: &Next,
) -> io::Result<()> {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        until_forwarding(shared).await;
        let has = |word: &[u8]| bytes[..count].windows(word.len()).any(|some| some == word);
        let mode = *shared.mode.borrow();
        next.lost.fetch_or(mode == Mode::LoseCommit && has(COMMIT), Ordering::SeqCst);
        next.held.fetch_or(mode == Mode::HoldBegin && has(BEGIN), Ordering::SeqCst);
        to.write_all(&bytes[..count]).await?;
    }
}

async fn forward_replies(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    shared: &Shared,
    next: &Next,
) -> io::Result<()> {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        if next.lost.load(Ordering::SeqCst) {
            // These bytes are the reply, so the COMMIT was carried out.
            shared.lost.fetch_add(1, Ordering::SeqCst);
            shared.mode.send_replace(Mode::Pass);
            return Ok(());
        }
        until_forwarding(shared).await;
        if next.held.swap(false, Ordering::SeqCst) {
            until(shared, |mode| mode != Mode::HoldBegin).await;
        }
        let mode = *shared.mode.borrow();
        if let Mode::Delay(time) = mode {
            tokio::time::sleep(time).await;
        }
        to.write_all(&bytes[..count]).await?;
    }
}

/// Waits while the mode is [`Mode::Blackhole`].
async fn until_forwarding(shared: &Shared) {
    until(shared, |mode| mode != Mode::Blackhole).await;
}

/// Waits until the mode is as wanted.
async fn until(shared: &Shared, wanted: impl Fn(Mode) -> bool) {
    let mut mode = shared.mode.subscribe();
    // The sender lives as long as the proxy.
    let _gone = mode.wait_for(|mode| wanted(*mode)).await;
}
