//! `make bench`: the delay until 5,000 watchers receive an event, and that none of them misses one.
//!
//! Streams are read in this process without sockets, so this measures the API and Postgres.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time and prints its results"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::http::Request;
use futures::StreamExt;
use http_body_util::BodyExt;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use trueup_http::{
    AppState, Dashboard, NoLogs, NoMail, NoProviders, Passwords, ReadRepair, SpendCache, Streams,
    router,
};
use trueup_model::Clock;
use trueup_model::principal::Role;
use trueup_rules::envelope::Keyring;
use trueup_rules::event::checkpoint::CheckpointKey;
use trueup_rules::password::Cost;
use trueup_store::{DbClock, Signals};
use trueup_testkit::test_db::TestDb;

const WATCHERS: usize = 5_000;
const EVENTS: usize = 20;
const TOKEN: &str = "bench";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let db = TestDb::new().await;
    let clock: Arc<dyn Clock> = Arc::new(DbClock::unanchored());
    db.setup.ensure_token(TOKEN, TOKEN, Role::Owner, Some(db.org), clock.now()).await?;
    let signals = Signals::default();
    let router = router(AppState {
        app: db.app.clone(),
        signals: signals.clone(),
        clock,
        encryptor: Keyring::new(&[7; 32]).encryptor(),
        registry: Arc::new(Registry::default()),
        stop: CancellationToken::new(),
        streams: Streams::new(WATCHERS, WATCHERS),
        read_repair: ReadRepair::default(),
        passwords: Passwords::new(Cost::RECOMMENDED)?,
        mail: Arc::new(NoMail),
        logs: Arc::new(NoLogs),
        providers: Arc::new(NoProviders),
        billing: Arc::default(),
        spend: SpendCache::default(),
        dashboard: Dashboard::default(),
        checkpoints: Arc::new(CheckpointKey::new(&[7; 32])),
    });
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let began = Instant::now();
    for _ in 0..WATCHERS {
        let body = send(&router, "GET", "/v1/events/watch").await?;
        tokio::spawn(listen(body.into_data_stream(), sender.clone()));
    }
    println!("{WATCHERS} watchers joined in {:.1} s", began.elapsed().as_secs_f64());
    let mut times = Vec::new();
    for event in 0..EVENTS {
        send(&router, "PUT", &format!("/v1/projects/p{event}")).await?.collect().await?;
        db.seal().await;
        let sealed = Instant::now();
        signals.sealed();
        for _ in 0..WATCHERS {
            let received = tokio::time::timeout(Duration::from_secs(60), receiver.recv()).await;
            let (at, many): (Instant, usize) =
                received.context("an event was lost")?.context("closed")?;
            ensure!(many == 1, "received {many} events at once, but one was sealed");
            times.push(at.duration_since(sealed));
        }
    }
    times.sort();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)].as_secs_f64();
    let [p50, p99, most] = [at(50), at(99), at(100)].map(|seconds| seconds * 1000.0);
    println!("{EVENTS} events, each to all: p50 {p50:.1} ms, p99 {p99:.1} ms, most {most:.1} ms");
    println!("target: p99 of at most 250 ms; no event was lost");
    Ok(())
}

async fn send(router: &Router, method: &str, path: &str) -> anyhow::Result<Body> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {TOKEN}"))
        .body(Body::empty())?;
    let reply = router.clone().oneshot(request).await?;
    ensure!(reply.status().is_success(), "{path} responded {}", reply.status());
    Ok(reply.into_body())
}

/// Reports when events arrived, and how many.
async fn listen(mut chunks: BodyDataStream, sender: mpsc::UnboundedSender<(Instant, usize)>) {
    while let Some(Ok(chunk)) = chunks.next().await {
        let many = chunk.windows(3).filter(|bytes| *bytes == b"id:").count();
        if many > 0 && sender.send((Instant::now(), many)).is_err() {
            return;
        }
    }
}
