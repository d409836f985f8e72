//! Event streams of the org: the same events as the pages, also after interruptions; and their
//! limits.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::http::StatusCode;
use futures::FutureExt;
use futures::future::join_all;
use serde_json::{Value, json};
use trueup_http::Streams;

use crate::front::{DEVELOPER, Front, STRANGER, VIEWER, WEB, web};
use crate::stream::{Frame, Reader, idle, ids};

const WATCH: &str = "/v1/events/watch";

async fn declare(front: &Front, service: &str, image: &str) -> Value {
    let path = format!("/v1/projects/shop/services/{service}");
    let reply = front.put(&path).json(&web(image)).send().await;
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{}", reply.text());
    reply.json()
}

/// The whole event log, as pages.
async fn polled(front: &Front) -> Vec<Value> {
    let page = front.get("/v1/events?limit=1000").send().await.json();
    page["items"].as_array().unwrap().clone()
}

fn data(frames: Vec<Frame>) -> Vec<Value> {
    frames.into_iter().map(|frame| frame.data).collect()
}

#[tokio::test]
async fn org_watch_streams_new_events_of_all_services() {
    let front = Front::with_web().await;
    front.seal().await;
    let mut reader = Reader::open(front.get(WATCH).token(VIEWER)).await;
    declare(&front, "other", "nginx:1").await;
    front.declare("nginx:2").await;
    front.seal().await;
    assert_eq!(ids(&reader.take(2).await), ["3", "4"]);
    let whole = Reader::open(front.get(&format!("{WATCH}?after=0"))).await.take(4).await;
    assert_eq!(data(whole), polled(&front).await);
}

#[tokio::test]
async fn watch_filters_select_events() {
    let front = Front::with_web().await;
    let other = declare(&front, "other", "nginx:1").await;
    front.declare("nginx:2").await;
    front.seal().await;
    let of = |query: &str| Reader::open(front.get(&format!("{WATCH}?after=0&{query}")));
    let subject = format!("subject={}", other["id"].as_str().unwrap());
    assert_eq!(of(&subject).await.next().await.unwrap().id, "3");
    assert_eq!(ids(&of("type=ServiceQueued").await.take(3).await), ["2", "3", "4"]);
    for bad in ["subject=web", "type=", "after=-1", "after=5", "generation=1"] {
        front.get(&format!("{WATCH}?{bad}")).send().await.must_be(400, "TU1103");
    }
    // Another org gets no events, and no error that would reveal the service.
    let path = format!("{WATCH}?after=0&{subject}");
    let mut theirs = Reader::open(front.get(&path).token(STRANGER)).await;
    let nothing = tokio::join!(theirs.next(), async {
        idle(&front).await;
        front.state.stop.cancel();
    });
    assert_eq!(nothing.0, None);
}

#[tokio::test]
async fn interrupted_readers_lose_and_duplicate_nothing() {
    const SERVICES: usize = 40;
    let front = Front::new().await;
    let writes = async {
        for chunk in (0..SERVICES).collect::<Vec<_>>().chunks(8) {
            let names = chunk.iter().map(|number| format!("web-{number}"));
            join_all(names.map(|name| async { declare(&front, &{ name }, "nginx:1").await })).await;
            front.seal().await;
        }
    };
    let read = async {
        let mut seen: Vec<Frame> = Vec::new();
        let mut cut = 1;
        while seen.len() < SERVICES + 1 {
            // A new connection each time, with only the last id, like a browser.
            let last = seen.last().map_or("0", |frame| frame.id.as_str()).to_owned();
            let request = front.get(WATCH).header("last-event-id", &last);
            let mut reader = Reader::open(request).await;
            for _ in 0..cut.min(SERVICES + 1 - seen.len()) {
                seen.extend(reader.next().await);
            }
            cut = cut % 5 + 1;
        }
        seen
    };
    let ((), seen) = tokio::join!(writes, read);
    let distinct: BTreeSet<&str> = ids(&seen).into_iter().collect();
    assert_eq!(distinct.len(), SERVICES + 1);
    assert_eq!(data(seen), polled(&front).await);
}

#[tokio::test]
async fn streams_are_limited_and_freed_when_closed() {
    let mut front = Front::with_web().await;
    front.rebuild(|state| state.streams = Streams::new(2, 3));
    let service = format!("{WEB}/watch");
    let first = Reader::open(front.get(WATCH)).await;
    let second = Reader::open(front.get(&service)).await;
    for path in [WATCH, &service] {
        let reply = front.get(path).send().await;
        let problem = reply.must_be(429, "TU1501");
        assert!(
            problem["detail"]
                .as_str()
                .unwrap()
                .contains("the org's stream limit is reached (2 of 2)")
        );
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
    // Other orgs are not affected until the server's limit is reached.
    let _third = Reader::open(front.get(WATCH).token(STRANGER)).await;
    let problem = front.get(WATCH).token(STRANGER).send().await.must_be(429, "TU1501");
    assert!(!problem["detail"].as_str().unwrap().contains("the org's"), "{problem}");
    drop(second);
    let again = Reader::open(front.get(WATCH)).await;
    front.get(WATCH).send().await.must_be(429, "TU1501");
    drop((first, again));
    assert_eq!(front.get(WATCH).open().await.0, StatusCode::OK);
    // Pages do not count as streams.
    assert_eq!(front.get("/v1/events").send().await.status, StatusCode::OK);
}

#[tokio::test]
async fn revoked_token_stops_a_buffered_batch() {
    let front = Front::with_web().await;
    for number in 2..=9 {
        front.declare(&format!("nginx:{number}")).await;
    }
    front.seal().await;
    let request = front.get(&format!("{WATCH}?after=0")).token(DEVELOPER);
    let mut reader = Reader::open(request).await;
    reader.next().await.unwrap();
    front.revoke(DEVELOPER).await;
    // A check counts for two seconds: after that nothing is sent before the next one.
    front.clock.advance(Duration::from_secs(2));
    let mut more = 0;
    while reader.next().await.is_some() {
        more += 1;
    }
    // One event may already be in the connection's buffer; the rest of the batch is not sent.
    assert!(more <= 1, "{more} events were sent after the revocation");
}

#[tokio::test]
async fn shutdown_ends_a_stream_with_buffered_events() {
    let front = Front::with_web().await;
    for number in 2..=30 {
        front.declare(&format!("nginx:{number}")).await;
    }
    front.seal().await;
    let mut reader = Reader::open(front.get(&format!("{WATCH}?after=0"))).await;
    let last = reader.take(3).await.pop().unwrap();
    front.state.stop.cancel();
    let mut rest = Vec::new();
    while let Some(frame) = reader.next().await {
        rest.push(frame);
    }
    assert!(rest.len() < 27, "the stream ended before all events were sent");
    // Another server continues where this one ended.
    let mut front = front;
    front.rebuild(|state| state.stop = tokio_util::sync::CancellationToken::new());
    let from = rest.last().unwrap_or(&last).id.clone();
    let resumed = Reader::open(front.get(WATCH).header("last-event-id", &from)).await;
    let next: i64 = from.parse::<i64>().unwrap() + 1;
    assert_eq!({ resumed }.next().await.unwrap().id, next.to_string());
}

#[tokio::test]
async fn delayed_sealing_blocks_nothing_else() {
    let front = Front::with_web().await;
    front.seal().await;
    let mut reader = Reader::open(front.get(WATCH)).await;
    let foreign = front.db.long_transaction().await;
    front.declare("nginx:2").await;
    assert_eq!(front.get("/readyz").send().await.status, StatusCode::OK);
    assert_eq!(front.get(WEB).send().await.json()["generation"], json!(2));
    assert_eq!(polled(&front).await.len(), 2);
    let waits = reader.next().now_or_never();
    assert!(waits.is_none(), "{waits:?}");
    foreign.end().await;
    front.seal().await;
    assert_eq!(reader.next().await.unwrap().id, "3");
}

/// S17: events of an org are sent only to watchers of that org, whatever filter they use.
#[tokio::test]
async fn s17_events_reach_only_their_own_org() {
    let front = Front::with_web().await;
    front.seal().await;
    let service = front.get(WEB).send().await.json();
    let project = front.get("/v1/projects/shop").send().await.json();
    let of = |subject: &Value| format!("{WATCH}?subject={}", subject["id"].as_str().unwrap());
    let open = |path: String, token| Reader::open(front.get(&path).token(token));
    let mut ours = open(WATCH.to_owned(), VIEWER).await;
    let mut all = open(WATCH.to_owned(), STRANGER).await;
    let mut of_service = open(of(&service), STRANGER).await;
    let mut of_project = open(of(&project), STRANGER).await;

    // An event of the project, and events of the service.
    let shared = front.put("/v1/projects/shop/variables/A").json(&json!({"value": "1"}));
    assert_eq!(shared.send().await.status, StatusCode::ACCEPTED);
    front.declare("nginx:2").await;
    front.seal().await;
    let events = ours.take(3).await;
    let subjects: BTreeSet<&str> =
        events.iter().map(|frame| frame.data["subject"].as_str().unwrap()).collect();
    let expected = [&service, &project].map(|one| one["id"].as_str().unwrap());
    assert_eq!(subjects, BTreeSet::from(expected));

    // The first event of the other org is its own.
    assert_eq!(front.put("/v1/projects/own").token(STRANGER).send().await.status, 202);
    front.seal().await;
    let own = all.next().await.unwrap();
    assert!(!expected.contains(&own.data["subject"].as_str().unwrap()), "{own:?}");
    assert_eq!(own.id, "1", "no event came before it");
    front.state.stop.cancel();
    assert_eq!((of_service.next().await, of_project.next().await), (None, None));
}
