//! A token that is revoked, expired or cannot be checked loses its open streams, logs included.

use std::sync::Arc;
use std::time::Duration;

use axum::body::BodyDataStream;
use axum::http::StatusCode;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use serde_json::{Value, json};
use tracing_subscriber::layer::SubscriberExt;
use trueup_http::{Lines, LiveLogs, LogSource};
use trueup_store::App;
use trueup_testkit::pg_proxy::{Mode, PgProxy};

use crate::front::{DEVELOPER, Front, OWNER, PATIENCE, STRANGER, VIEWER, WEB};
use crate::log::{pod, with_logs};
use crate::stranger::Statements;
use crate::stream::Reader;

const WATCH: &str = "/v1/events/watch";
const SECOND: Duration = Duration::from_secs(1);

/// Pods whose logs never end: `silent` prints nothing, any other always has another line.
#[derive(Debug)]
struct Endless;

impl LiveLogs for Endless {
    fn read(&self, of: LogSource) -> BoxFuture<'static, Result<Lines, String>> {
        let lines: Lines = if of.pod == "silent" {
            stream::pending().boxed()
        } else {
            stream::repeat_with(|| Ok("tick".to_owned())).boxed()
        };
        futures::future::ready(Ok(lines)).boxed()
    }
}

async fn with_endless_logs() -> Front {
    with_logs(json!([pod("chatty", false), pod("silent", false)]), Arc::new(Endless)).await
}

/// A reader of the body of a stream.
struct Text {
    chunks: BodyDataStream,
}

impl Text {
    async fn open(front: &Front, path: &str, token: &str) -> Self {
        let (status, _, body) = front.get(path).token(token).open().await;
        assert_eq!(status, StatusCode::OK);
        Self { chunks: body.into_data_stream() }
    }

    async fn of_log(front: &Front, pod: &str, token: &str) -> Self {
        Self::open(front, &format!("{WEB}/logs?follow=true&pod={pod}"), token).await
    }

    /// What is sent next; `None` at the end of the stream.
    async fn next(&mut self) -> Option<String> {
        // A stream that always has a line would not let other tasks run.
        tokio::task::yield_now().await;
        let chunk = tokio::time::timeout(PATIENCE, self.chunks.next()).await;
        let chunk = chunk.expect("the stream should continue or end")?.unwrap();
        Some(String::from_utf8(chunk.to_vec()).unwrap())
    }

    /// Checks that the stream is open and waits.
    fn must_wait(&mut self) {
        let next = self.chunks.next().now_or_never();
        assert!(next.is_none(), "{next:?}");
    }

    async fn log_line(&mut self) -> Value {
        serde_json::from_str(&self.next().await.expect("the log should continue")).unwrap()
    }

    async fn must_tick(&mut self) {
        assert_eq!(self.log_line().await["line"], "tick");
    }

    /// Checks that the log sends this notice, and then ends.
    async fn must_end(&mut self, notice: &str) {
        let last = self.log_line().await;
        let sent = last["notice"].as_str().unwrap_or_else(|| panic!("no notice: {last}"));
        assert!(sent.contains(notice), "{sent}");
        assert_eq!(self.next().await, None);
    }
}

#[tokio::test]
async fn revoked_token_ends_a_chatty_log() {
    let front = with_endless_logs().await;
    let mut log = Text::of_log(&front, "chatty", DEVELOPER).await;
    let mut other = Text::of_log(&front, "chatty", VIEWER).await;
    for _ in 0..100 {
        log.must_tick().await;
    }
    front.revoke(DEVELOPER).await;
    front.clock.advance(2 * SECOND);
    // Two seconds after the revocation not one more line is sent.
    log.must_end("the token was revoked").await;
    other.must_tick().await;
}

#[tokio::test]
async fn revoked_token_ends_a_silent_log_at_the_next_check() {
    let front = with_endless_logs().await;
    let mut log = Text::of_log(&front, "silent", DEVELOPER).await;
    log.must_wait();
    front.revoke(DEVELOPER).await;
    front.clock.advance(SECOND);
    log.must_end("the token was revoked").await;
}

#[tokio::test]
async fn expired_token_ends_its_logs_at_that_moment() {
    let front = with_endless_logs().await;
    let expire = "update tokens set expires_at = to_timestamp(1800000010) where name = $1";
    sqlx::query(expire).bind(DEVELOPER).execute(&front.owner).await.unwrap();
    front.clock.advance(Duration::from_millis(9500));
    let mut chatty = Text::of_log(&front, "chatty", DEVELOPER).await;
    let mut silent = Text::of_log(&front, "silent", DEVELOPER).await;
    front.clock.advance(Duration::from_millis(499));
    chatty.must_tick().await;
    silent.must_wait();
    // No check is due yet, so this needs no database.
    front.clock.advance(Duration::from_millis(1));
    chatty.must_end("the token has expired").await;
    silent.must_end("the token has expired").await;
}

#[tokio::test]
async fn expired_token_ends_an_event_stream_at_that_moment() {
    let front = Front::with_web().await;
    front.seal().await;
    let expire = "update tokens set expires_at = to_timestamp(1800000001) where name = $1";
    sqlx::query(expire).bind(DEVELOPER).execute(&front.owner).await.unwrap();
    front.clock.advance(Duration::from_millis(500));
    let mut reader = Reader::open(front.get(&format!("{WATCH}?after=0")).token(DEVELOPER)).await;
    reader.next().await.unwrap();
    front.clock.advance(Duration::from_millis(500));
    assert_eq!(reader.next().await, None);
}

/// A front whose database connections go through a proxy.
async fn behind_a_proxy(mut front: Front) -> (Front, PgProxy) {
    let proxy = PgProxy::start(&front.db.urls.app).await;
    let url = proxy.url(&front.db.urls.app);
    front.rebuild(|state| state.app = App::connect(&url).unwrap());
    (front, proxy)
}

/// A check that hangs is not a check that succeeded.
#[tokio::test]
async fn log_ends_and_says_why_when_the_database_hangs() {
    let (front, proxy) = behind_a_proxy(with_endless_logs().await).await;
    let mut chatty = Text::of_log(&front, "chatty", OWNER).await;
    let mut silent = Text::of_log(&front, "silent", OWNER).await;
    proxy.set(Mode::Blackhole);
    front.clock.advance(SECOND);
    chatty.must_tick().await;
    silent.must_wait();
    // The check that began now is given up after a second.
    front.clock.until_sleeping_until(2 * SECOND).await;
    front.clock.advance(SECOND);
    chatty.must_end("reconnect in a few seconds").await;
    silent.must_end("the database is unavailable").await;
}

#[tokio::test]
async fn event_stream_ends_and_says_why_when_the_database_is_unavailable() {
    let (front, proxy) = behind_a_proxy(Front::with_web().await).await;
    front.seal().await;
    let mut events = Text::open(&front, &format!("{WATCH}?after=0"), OWNER).await;
    for id in ["id: 1", "id: 2"] {
        let event = events.next().await.unwrap();
        assert!(event.starts_with(id), "{event}");
    }
    proxy.set(Mode::Cut);
    front.clock.advance(SECOND);
    front.clock.until_sleeping_until(2 * SECOND).await;
    front.clock.advance(SECOND);
    // The last check may be given up, or a new one may fail.
    let last = events.next().await.unwrap();
    assert!(last.starts_with(": stream ended: the token could not be checked"), "{last}");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn streams_of_valid_tokens_continue_and_cost_one_statement_a_second() {
    let statements = Statements::default();
    let subscriber = tracing_subscriber::registry().with(statements.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    // With a single subscriber, tracing disables a callsite for all threads if another test's
    // thread reaches it first.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let front = with_endless_logs().await;
    let mut logs = Vec::new();
    let mut watches = Vec::new();
    for number in 0..20 {
        let token = if number % 2 == 0 { VIEWER } else { OWNER };
        logs.push(Text::of_log(&front, "chatty", token).await);
        watches.push(Text::open(&front, WATCH, token).await);
    }
    // A token of another org is checked by the same statement.
    watches.push(Text::open(&front, WATCH, STRANGER).await);
    statements.take();
    let mut checks = 0;
    let mut count = || {
        let sent = statements.take();
        checks += sent.iter().filter(|one| one.starts_with("select id, home, role")).count();
        checks
    };
    for second in 1..=5 {
        front.clock.advance(SECOND);
        let checked = async {
            while count() < second {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, checked).await.expect("the tokens should be checked");
        for log in &mut logs {
            log.must_tick().await;
        }
        assert_eq!(count(), second, "one check for all streams");
    }
    for watch in &mut watches {
        watch.must_wait();
    }
}
