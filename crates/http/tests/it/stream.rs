//! Event streams: in order, without loss or duplicates, resumable, and ended when necessary.

use std::time::Duration;

use axum::body::BodyDataStream;
use axum::http::StatusCode;
use futures::StreamExt;
use serde_json::{Value, json};

use trueup_model::Clock;

use crate::front::{DEVELOPER, Front, PATIENCE, TestRequest, VIEWER, WEB, web};

const WATCH: &str = "/v1/projects/shop/services/web/watch";

/// A reader of server-sent events.
pub(crate) struct Reader {
    chunks: BodyDataStream,
    text: String,
}

/// One received event.
#[derive(Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: String,
    pub(crate) event: String,
    pub(crate) data: Value,
}

impl Reader {
    pub(crate) async fn open(request: TestRequest) -> Self {
        let (status, headers, body) = request.open().await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(headers["content-type"], "text/event-stream");
        Self { chunks: body.into_data_stream(), text: String::new() }
    }

    /// The next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        tokio::time::timeout(PATIENCE, async {
            loop {
                if let Some((frame, rest)) = self.text.split_once("\n\n") {
                    let field = |name: &str| {
                        let line = frame.lines().find_map(|line| line.strip_prefix(name));
                        line.unwrap_or_default().trim_start().to_owned()
                    };
                    let data = serde_json::from_str(&field("data:")).unwrap();
                    let frame = Frame { id: field("id:"), event: field("event:"), data };
                    self.text = rest.to_owned();
                    return Some(frame);
                }
                let chunk = self.chunks.next().await?.unwrap();
                self.text += std::str::from_utf8(&chunk).unwrap();
            }
        })
        .await
        .expect("the stream should continue or end")
    }

    pub(crate) async fn take(&mut self, count: usize) -> Vec<Frame> {
        let mut frames = Vec::new();
        for _ in 0..count {
            frames.push(self.next().await.expect("the stream should continue"));
        }
        frames
    }
}

pub(crate) fn ids(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.id.as_str()).collect()
}

/// Waits until a stream only waits for the clock.
pub(crate) async fn idle(front: &Front) {
    let idle = async {
        while front.clock.sleepers() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, idle).await.expect("the stream should become idle");
}

#[tokio::test]
async fn watch_starts_at_the_current_generation() {
    let front = Front::with_web().await;
    front.declare("nginx:2").await;
    front.seal().await;
    let mut reader = Reader::open(front.get(WATCH).token(VIEWER)).await;
    let first = reader.next().await.unwrap();
    assert_eq!((first.id.as_str(), first.event.as_str()), ("3", "ServiceQueued"));
    assert_eq!(first.data["generation"], 2);
    assert_eq!(first.data["sequence"], "3");

    // Events of other services are not part of this watch.
    let other = front.put("/v1/projects/shop/services/other").json(&web("nginx:1")).send().await;
    assert_eq!(other.status, StatusCode::ACCEPTED);
    front.declare("nginx:3").await;
    front.seal().await;
    let second = reader.next().await.unwrap();
    assert_eq!((second.id.as_str(), &second.data["generation"]), ("5", &json!(3)));
}

#[tokio::test]
async fn watch_opened_before_the_first_seal_misses_no_event() {
    let front = Front::with_web().await;
    let mut reader = Reader::open(front.get(WATCH)).await;
    front.seal().await;
    assert_eq!(reader.next().await.unwrap().id, "2");
}

#[tokio::test]
async fn watch_resumes_without_loss_or_duplicates() {
    let front = Front::with_web().await;
    for number in 2..=6 {
        front.declare(&format!("nginx:{number}")).await;
    }
    front.seal().await;
    let whole = Reader::open(front.get(WATCH).header("last-event-id", "0")).await.take(6).await;
    assert_eq!(ids(&whole), ["2", "3", "4", "5", "6", "7"]);
    for (cut, frame) in whole.iter().enumerate().take(5) {
        let resumed = front.get(WATCH).header("last-event-id", &frame.id);
        let rest = Reader::open(resumed).await.take(5 - cut).await;
        assert_eq!(rest, whole[cut + 1..], "after {}", frame.id);
        let polled = front.get(&format!("{WATCH}?after={}", frame.id));
        assert_eq!(Reader::open(polled).await.take(5 - cut).await, rest);
    }
    // The header wins: a browser sends it when it reconnects to the original URL.
    let both = front.get(&format!("{WATCH}?after=0")).header("last-event-id", "6");
    assert_eq!(Reader::open(both).await.next().await.unwrap().id, "7");
    // The pages have the same content.
    let page = front.get("/v1/events?after=1").send().await.json();
    let data: Vec<Value> = whole.into_iter().map(|frame| frame.data).collect();
    assert_eq!(page["items"], json!(data));
}

#[tokio::test]
async fn position_beyond_the_end_is_refused() {
    let front = Front::with_web().await;
    front.seal().await;
    for forged in ["x", "-1", "1.5", "99999999999999999999", "evt_1"] {
        let reply = front.get(WATCH).header("last-event-id", forged).send().await;
        reply.must_be(400, "TU1103");
    }
    // Such a watch would miss the events before that position.
    for ahead in ["3", "1000", "9223372036854775807"] {
        let reply = front.get(WATCH).header("last-event-id", ahead).send().await;
        let problem = reply.must_be(400, "TU1103");
        assert!(
            problem["detail"].as_str().unwrap().contains("the last event is at 2"),
            "{problem}"
        );
    }
    assert_eq!(front.get(WATCH).header("last-event-id", "2").open().await.0, StatusCode::OK);
}

#[tokio::test]
async fn watch_of_several_batches_is_complete() {
    let front = Front::with_web().await;
    for number in 2..=230 {
        front.declare(&format!("nginx:{number}")).await;
    }
    front.seal().await;
    let mut reader = Reader::open(front.get(WATCH).header("last-event-id", "0")).await;
    let frames = reader.take(230).await;
    let expected: Vec<String> = (2..=231).map(|position| position.to_string()).collect();
    assert_eq!(ids(&frames), expected);
}

#[tokio::test]
async fn lost_signal_is_covered_by_polling() {
    let front = Front::with_web().await;
    front.seal().await;
    let mut reader = Reader::open(front.get(WATCH)).await;
    reader.next().await.unwrap();
    let next = tokio::join!(reader.next(), async {
        idle(&front).await;
        front.declare("nginx:2").await;
        while front.db.worker.seal_events(front.clock.now()).await.unwrap() == 0 {
            tokio::task::yield_now().await;
        }
        front.clock.advance(Duration::from_secs(1));
    });
    assert_eq!(next.0.unwrap().id, "3");
}

#[tokio::test]
async fn watch_ends_at_shutdown() {
    let front = Front::with_web().await;
    front.seal().await;
    let mut reader = Reader::open(front.get(WATCH)).await;
    reader.next().await.unwrap();
    let ended = tokio::join!(reader.next(), async {
        idle(&front).await;
        front.state.stop.cancel();
    });
    assert_eq!(ended.0, None);
}

#[tokio::test]
async fn revoked_token_ends_the_watch_before_the_next_event() {
    let front = Front::with_web().await;
    front.seal().await;
    let mut reader = Reader::open(front.get(WATCH).token(DEVELOPER)).await;
    reader.next().await.unwrap();
    front.revoke(DEVELOPER).await;
    front.declare("nginx:2").await;
    front.seal().await;
    assert_eq!(reader.next().await, None);
}

#[tokio::test]
async fn revoked_token_ends_an_idle_watch() {
    let front = Front::with_web().await;
    front.seal().await;
    let mut reader = Reader::open(front.get(WATCH).token(DEVELOPER)).await;
    reader.next().await.unwrap();
    let ended = tokio::join!(reader.next(), async {
        idle(&front).await;
        front.revoke(DEVELOPER).await;
        front.clock.advance(Duration::from_secs(1));
    });
    assert_eq!(ended.0, None);
}

#[tokio::test]
async fn watch_by_id_works_after_deletion() {
    let front = Front::with_web().await;
    let service = front.get(WEB).send().await.json();
    assert_eq!(front.delete(WEB).send().await.status, StatusCode::ACCEPTED);
    sqlx::query("update services set deleted_at = now()").execute(&front.owner).await.unwrap();
    front.seal().await;
    front.get(WATCH).send().await.must_be(404, "TU1003");
    let mut reader = Reader::open(front.get(service["watch"].as_str().unwrap())).await;
    let last = reader.next().await.unwrap();
    assert_eq!(last.data["data"]["deletes"], true);
}
