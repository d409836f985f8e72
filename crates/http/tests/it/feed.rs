//! Many watchers of one org cost the database no more than one.

use futures::FutureExt;
use tracing_subscriber::layer::SubscriberExt;

use crate::front::{DEVELOPER, Front, VIEWER, WEB};
use crate::stranger::Statements;
use crate::stream::Reader;

const WATCHERS: usize = 60;

#[tokio::test]
async fn seal_is_read_once_for_any_number_of_watchers() {
    let log = Statements::default();
    let subscriber = tracing_subscriber::registry().with(log.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    // With a single subscriber, tracing disables a callsite for all threads if another test's
    // thread reaches it first.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let front = Front::with_web().await;
    front.seal().await;
    let mut readers = Vec::new();
    for number in 0..WATCHERS {
        let path =
            if number % 2 == 0 { "/v1/events/watch" } else { &format!("{WEB}/watch?after=2") };
        let token = if number % 3 == 0 { DEVELOPER } else { VIEWER };
        readers.push(Reader::open(front.get(path).token(token)).await);
    }
    for position in 3..=6 {
        front.declare(&format!("nginx:{position}")).await;
        front.db.seal().await;
        log.take();
        front.state.signals.sealed();
        for reader in &mut readers {
            let frame = reader.next().await.expect("the stream should continue");
            assert_eq!(frame.id, position.to_string());
        }
        let sent = log.take();
        let begin = |words: &str| sent.iter().filter(|one| one.starts_with(words)).count();
        let (reads, lookups) =
            (begin("select s.org_id, s.position"), begin("select id, home, role"));
        // The first time some streams still catch up by themselves.
        if position > 3 {
            assert_eq!((reads, lookups), (1, 1), "one read, and one check of all tokens: {sent:?}");
        }
    }
    // One token is revoked; the streams of the other continue.
    front.revoke(DEVELOPER).await;
    front.declare("nginx:7").await;
    front.seal().await;
    for (number, reader) in readers.iter_mut().enumerate() {
        let next = reader.next().await.map(|frame| frame.id);
        let is_alive = number % 3 != 0;
        assert_eq!(next.as_deref(), is_alive.then_some("7"), "{number}");
        assert!(!is_alive || reader.next().now_or_never().is_none(), "it waits for more");
    }
}
