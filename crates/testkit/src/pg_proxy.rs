//! A byte proxy before Postgres: passes, delays, swallows, cuts, strands what is connected, loses the
//! reply to a COMMIT, and holds back the one to a BEGIN.
//!
//! It looks into nothing but the two words it waits for. What a COMMIT did when its reply is lost
//! cannot be known from the connection; who asked must find out by other means.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What becomes of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They pass.
    Pass,
    /// Every answer comes so much later.
    Delay(Duration),
    /// Nothing comes through, and nobody is told.
    Blackhole,
    /// Every connection is closed, and every new one, too.
    Cut,
    /// The next COMMIT is carried out, and its reply lost with the connection. Then they pass.
    LoseCommit,
    /// Every BEGIN is carried out, and its reply waits until this ends. Everything else passes.
    HoldBegin,
}

/// The end of a COMMIT as a simple query, and of a BEGIN.
const COMMIT: &[u8] = b"COMMIT\0";
const BEGIN: &[u8] = b"BEGIN\0";

/// A proxy at work. It ends when this is dropped.
#[derive(Debug)]
pub struct PgProxy {
    port: u16,
    server: u16,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    mode: watch::Sender<Mode>,
    lost: AtomicUsize,
    /// How many connections there were so far.
    accepted: AtomicUsize,
    /// So many of the first ones are stranded.
    stranded: watch::Sender<usize>,
}

impl PgProxy {
    /// A proxy before the server of this URL.
    ///
    /// # Panics
    /// The URL has no port, or no port can be had here.
    pub async fn start(url: &str) -> Self {
        let server = port_of(url).expect("a test's URL should have a port");
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
        Self { port, server, shared, _tasks: tasks }
    }

    /// The same URL through this proxy.
    #[must_use]
    pub fn url(&self, url: &str) -> String {
        url.replacen(&format!(":{}/", self.server), &format!(":{}/", self.port), 1)
    }

    /// What becomes of the bytes from now on.
    pub fn set(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }

    /// The other side of every connection vanishes without a word, as a machine does that loses its
    /// power. New connections find it there again.
    pub fn strand(&self) {
        self.shared.stranded.send_replace(self.shared.accepted.load(Ordering::SeqCst));
    }

    /// How many replies to a COMMIT were lost.
    #[must_use]
    pub fn lost_commits(&self) -> usize {
        self.shared.lost.load(Ordering::SeqCst)
    }
}

fn port_of(url: &str) -> Option<u16> {
    let (_, place) = url.rsplit_once('@')?;
    place.split('/').next()?.rsplit_once(':')?.1.parse().ok()
}

async fn accept(listener: TcpListener, server: u16, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        if *shared.mode.borrow() == Mode::Cut {
            continue;
        }
        let shared = Arc::clone(&shared);
        let number = shared.accepted.fetch_add(1, Ordering::SeqCst);
        connections.spawn(async move {
            let served = async {
                // Whichever side ends first takes the other with it: both are dropped here.
                let _ended = serve(client, server, &shared).await;
            };
            unless_stranded(&shared, number, served).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Serves a connection until it is stranded: from then on it is kept, and nothing is done with it.
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

/// What becomes of the next answer on a connection.
#[derive(Debug, Default)]
struct Next {
    lost: AtomicBool,
    held: AtomicBool,
}

async fn serve(client: TcpStream, server: u16, shared: &Shared) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", server)).await?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let next = Next::default();
    tokio::select! {
        ended = ask(&mut from_client, &mut to_server, shared, &next) => ended,
        ended = answer(&mut from_server, &mut to_client, shared, &next) => ended,
        () = until(shared, |mode| mode == Mode::Cut) => Ok(()),
    }
}

async fn ask(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    shared: &Shared,
    next: &Next,
) -> io::Result<()> {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        through(shared).await;
        let says = |word: &[u8]| bytes[..count].windows(word.len()).any(|some| some == word);
        let mode = *shared.mode.borrow();
        next.lost.fetch_or(mode == Mode::LoseCommit && says(COMMIT), Ordering::SeqCst);
        next.held.fetch_or(mode == Mode::HoldBegin && says(BEGIN), Ordering::SeqCst);
        to.write_all(&bytes[..count]).await?;
    }
}

async fn answer(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
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
            // It is carried out: this was the answer.
            shared.lost.fetch_add(1, Ordering::SeqCst);
            shared.mode.send_replace(Mode::Pass);
            return Ok(());
        }
        through(shared).await;
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

/// Waits while nothing comes through.
async fn through(shared: &Shared) {
    until(shared, |mode| mode != Mode::Blackhole).await;
}

/// Waits for a mode.
async fn until(shared: &Shared, wanted: impl Fn(Mode) -> bool) {
    let mut mode = shared.mode.subscribe();
    // The sender lives as long as the proxy.
    let _gone = mode.wait_for(|mode| wanted(*mode)).await;
}
