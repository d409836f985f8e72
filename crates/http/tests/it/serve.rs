//! The server on a real socket: timeouts, limits and graceful shutdown.

use std::net::SocketAddr;
use std::time::Duration;

use sqlx::Connection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use trueup_http::{Limits, Listener, TrustedProxies, router, serve};

use crate::front::{Front, OWNER, PATIENCE, WEB};
use crate::hostile::Log;

/// A server of this front with these limits.
struct Server {
    address: SocketAddr,
    task: JoinSet<std::io::Result<()>>,
}

impl Server {
    async fn start(front: &Front, limits: Limits) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut task = JoinSet::new();
        let (router, stop) = (router(front.state.clone()), front.state.stop.clone());
        task.spawn(serve(
            Listener::local(listener, TrustedProxies::default()),
            router,
            limits,
            stop,
        ));
        Self { address, task }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends text and returns everything received until the connection is closed.
    async fn say(&self, text: &str) -> String {
        let mut stream = self.connect().await;
        // The server may close the connection before all of it is sent.
        let _cut = stream.write_all(text.as_bytes()).await;
        rest(&mut stream).await
    }
}

/// Sends a request on a kept-alive connection, and returns the response.
async fn again(stream: &mut TcpStream) -> String {
    stream.write_all(request("/v1/projects", "").as_bytes()).await.unwrap();
    let whole = tokio::time::timeout(PATIENCE, async {
        let mut bytes = Vec::new();
        loop {
            bytes.push(stream.read_u8().await.unwrap());
            let text = String::from_utf8_lossy(&bytes);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() == length.unwrap().parse::<usize>().unwrap() {
                return text.into_owned();
            }
        }
    });
    whole.await.expect("there should be a response")
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    // A reset also closes the connection.
    let _ended = read.expect("the connection should be closed");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn request(path: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {OWNER}\r\n{more}\r\n")
}

/// S50: slow or endless headers close the connection after the configured timeout, not the default.
#[tokio::test]
async fn s50_slow_headers_time_out() {
    const WELL_BEFORE_THE_DEFAULT: Duration = Duration::from_secs(20);
    assert!(Limits::default().headers > WELL_BEFORE_THE_DEFAULT);
    let front = Front::with_web().await;
    let quick = Limits { headers: Duration::from_millis(300), ..Limits::default() };
    let server = Server::start(&front, quick).await;
    for begun in ["", "G", "GET /v1/projects HTTP/1.1\r\nhost: x\r\nauth"] {
        let said = tokio::time::timeout(WELL_BEFORE_THE_DEFAULT, server.say(begun)).await;
        let said = said.unwrap_or_else(|_| panic!("{begun:?} should be cut"));
        assert!(!said.contains("200"), "{begun:?}: {said}");
    }
    // With a longer timeout, complete headers get a response.
    let patient = Server::start(&front, Limits { headers: PATIENCE, ..quick }).await;
    let whole = patient.say(&request("/v1/projects", "connection: close\r\n")).await;
    assert!(whole.starts_with("HTTP/1.1 200"), "{whole}");
}

/// S50: too many headers, and too large ones.
#[tokio::test]
async fn s50_too_many_or_large_headers_are_rejected() {
    let front = Front::with_web().await;
    // A long timeout: the request is rejected for its size, not for its duration.
    let server = Server::start(&front, Limits { headers: PATIENCE, ..Limits::default() }).await;
    let many: String = (0..1000).map(|n| format!("x-{n}: y\r\n")).collect();
    let large = format!("x: {}\r\n", "y".repeat(1024 * 1024));
    for flood in [many, large] {
        let said = server.say(&request("/v1/projects", &flood)).await;
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said}");
        assert!(!said.contains("items"), "{said}");
    }
    let path = format!("/v1/projects?x={}", "y".repeat(1024 * 1024));
    let said = server.say(&request(&path, "")).await;
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said}");
    let whole = server.say(&request("/v1/projects", "connection: close\r\n")).await;
    assert!(whole.starts_with("HTTP/1.1 200"), "{whole}");
}

/// S50: connections beyond the limit wait.
#[tokio::test]
async fn s50_connections_are_limited() {
    let front = Front::with_web().await;
    let limits = Limits { connections: 2, headers: Duration::from_secs(3600), ..Limits::default() };
    let server = Server::start(&front, limits).await;
    let mut first = server.connect().await;
    let second = server.connect().await;
    // Both slots are used: the first request is answered on a kept-alive connection.
    assert!(again(&mut first).await.starts_with("HTTP/1.1 200"));
    let mut third = server.connect().await;
    third.write_all(request("/v1/projects", "connection: close\r\n").as_bytes()).await.unwrap();
    // While the server answers the first one several times, the third gets nothing.
    for _ in 0..5 {
        assert!(again(&mut first).await.starts_with("HTTP/1.1 200"));
    }
    let waits = third.try_read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(waits, Err(std::io::ErrorKind::WouldBlock), "a third connection was served");
    drop(second);
    assert!(rest(&mut third).await.starts_with("HTTP/1.1 200"));
}

/// Graceful shutdown: requests in flight are answered, new connections are refused.
#[tokio::test]
async fn shutdown_drains_requests_in_flight_and_accepts_no_new_ones() {
    let front = Front::with_web().await;
    front.seal().await;
    let limits = Limits { drain: PATIENCE, ..Limits::default() };
    let mut server = Server::start(&front, limits).await;
    // An idle connection, a stream, and a request that waits for the database.
    let mut resting = server.connect().await;
    let mut stream = server.connect().await;
    stream.write_all(request(&format!("{WEB}/watch"), "").as_bytes()).await.unwrap();
    assert!(stream.read_u8().await.is_ok());
    let mut lock = sqlx::PgConnection::connect(&front.db.urls.owner).await.unwrap();
    let statement = "begin; lock table projects in access exclusive mode";
    sqlx::raw_sql(statement).execute(&mut lock).await.unwrap();
    let mut working = server.connect().await;
    working.write_all(request("/v1/projects", "").as_bytes()).await.unwrap();
    waits_for_lock(&front).await;

    front.state.stop.cancel();
    assert_eq!(rest(&mut resting).await, "");
    let streamed = rest(&mut stream).await;
    assert!(streamed.ends_with("0\r\n\r\n"), "a stream should end and not be cut: {streamed}");
    let refused = tokio::time::timeout(PATIENCE, async {
        while TcpStream::connect(server.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    });
    refused.await.expect("new connections should be refused");
    sqlx::raw_sql("rollback").execute(&mut lock).await.unwrap();
    let answer = rest(&mut working).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("shop"), "{answer}");
    let served = tokio::time::timeout(PATIENCE, server.task.join_next()).await;
    assert!(served.unwrap().unwrap().unwrap().is_ok());
}

/// A request that never completes does not block the shutdown.
#[tokio::test]
async fn shutdown_ends_after_the_drain_timeout() {
    let front = Front::with_web().await;
    let limits = Limits { drain: Duration::from_millis(100), ..Limits::default() };
    let mut server = Server::start(&front, limits).await;
    let mut lock = sqlx::PgConnection::connect(&front.db.urls.owner).await.unwrap();
    let statement = "begin; lock table projects in access exclusive mode";
    sqlx::raw_sql(statement).execute(&mut lock).await.unwrap();
    let mut working = server.connect().await;
    working.write_all(request("/v1/projects", "").as_bytes()).await.unwrap();
    waits_for_lock(&front).await;
    front.state.stop.cancel();
    let served = tokio::time::timeout(PATIENCE, server.task.join_next()).await;
    assert!(served.unwrap().unwrap().unwrap().is_ok());
    assert_eq!(rest(&mut working).await, "");
}

/// Waits until a statement of this database waits for a lock.
async fn waits_for_lock(front: &Front) {
    let waiting = "select count(*) from pg_locks l join pg_database d on d.oid = l.database
                   where d.datname = current_database() and not l.granted";
    let waited = tokio::time::timeout(PATIENCE, async {
        while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&front.owner).await.unwrap() == 0 {
            tokio::task::yield_now().await;
        }
    });
    waited.await.expect("the request should reach the database");
}

/// S40: secrets sent over a real socket, with the log level of a debug session.
#[tokio::test]
async fn s40_secrets_sent_over_a_socket_are_in_no_log() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_writer({
            let log = log.clone();
            move || log.clone()
        })
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    // With a single subscriber, tracing disables a callsite for all threads if another test's
    // thread reaches it first.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let front = Front::with_web().await;
    let server = Server::start(&front, Limits::default()).await;
    let put = |path: &str, token: &str, body: &str| {
        format!(
            "PUT {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
             idempotency-key: key\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let secret = format!("{WEB}/secrets/PASSWORD");
    let mut responses = String::new();
    for (path, token, body, status) in [
        (secret.as_str(), OWNER, r#"{"value": "canary-1"}"#, 202),
        (&format!("{secret}?dry_run=true"), OWNER, r#"{"value": "canary-2"}"#, 200),
        (&secret, OWNER, r#"{"value": "canary-3", "more": "canary-4"}"#, 400),
        (&secret, OWNER, r#"{"value": ["canary-5"]}"#, 400),
        (&secret, OWNER, r#"{"value": "canary-6"#, 400),
        (&secret, "canary-7", r#"{"value": "canary-8"}"#, 401),
        (&format!("{WEB}/variables/PLAIN"), OWNER, r#"{"value": "canary-9", "x": 1}"#, 400),
    ] {
        let said = server.say(&put(path, token, body)).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{body}: {said}");
        responses += &said;
    }
    let log = log.text();
    assert!(log.contains("insert into secrets"), "statements should be logged: {}", log.len());
    for (what, text) in [("the log", &log), ("a response", &responses)] {
        assert!(!text.contains("canary"), "{what} contains a canary: {text}");
    }
}
