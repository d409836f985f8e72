//! Declaring: everything that belongs to a generation is committed together, and only once.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use futures::future::{join_all, poll_fn};
use trueup_model::drift::DriftPolicy;
use trueup_model::status::Phase;
use trueup_testkit::test_db::name;

use crate::stage::{Stage, at, web};

fn grew(tables: &[&str]) -> Vec<(String, i64)> {
    tables.iter().map(|table| ((*table).to_owned(), 1)).collect()
}

const OF_A_SERVICE: [&str; 7] =
    ["event_queue", "events", "releases", "reservations", "services", "statuses", "wakes"];

#[tokio::test]
async fn a_new_service_is_recorded_whole_in_one_transaction() {
    let stage = Stage::new().await;
    let before = stage.rows().await;
    let accepted = stage.declare("web", "nginx:1").await;
    assert!(accepted.changed);
    assert_eq!(stage.grown(&before).await, grew(&OF_A_SERVICE));

    let row = accepted.row;
    assert_eq!(row.service.generation, 1);
    assert_eq!((row.status.phase, row.projection), (Phase::Accepted, 1));
    let id = row.service.id.uuid();
    let transactions: Vec<String> = stage
        .all(&format!(
            "select xmin::text from services where id = '{id}'
             union select xmin::text from releases where service_id = '{id}'
             union select xmin::text from statuses where subject_id = '{id}'
             union select xmin::text from events where subject_id = '{id}'
             union select xmin::text from event_queue where subject_id = '{id}'
             union select xmin::text from wakes where subject_id = '{id}'"
        ))
        .await;
    assert_eq!(transactions.len(), 1, "{transactions:?}");
}

#[tokio::test]
async fn the_event_names_the_principal_and_the_wake_is_due_at_once() {
    let stage = Stage::new().await;
    let id = stage.declare("web", "nginx:1").await.row.service.id.uuid();
    let event: String = stage
        .one(&format!(
            "select concat_ws(' ', type, source, generation, body->>'principal', body->>'deletes', trace)
             from events where subject_id = '{id}'"
        ))
        .await;
    let principal = stage.principal.id;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    assert_eq!(event, format!("ServiceQueued user 1 {principal} false {trace}"));
    let wake: String = stage
        .one(&format!(
            "select concat_ws(' ', state, lane, requested_seq, attempts, extract(epoch from due_at)::bigint)
             from wakes where subject_id = '{id}'"
        ))
        .await;
    assert_eq!(wake, format!("queued user_change 1 0 {}", at(1).as_second()));
}

#[tokio::test]
async fn declaring_the_same_again_writes_nothing() {
    let stage = Stage::new().await;
    let first = stage.declare("web", "nginx:1").await;
    let before = stage.rows().await;
    let version = "select concat_ws(' ', s.xmin, w.xmin, w.requested_seq)
                   from services s join wakes w on w.subject_id = s.id";
    let written: String = stage.one(version).await;

    let second = stage.declare("web", "nginx:1").await;
    assert!(!second.changed);
    assert_eq!(second.row, first.row);
    assert_eq!(stage.grown(&before).await, []);
    assert_eq!(stage.one::<String>(version).await, written);
}

#[tokio::test]
async fn concurrent_declarations_of_one_name_create_one_service() {
    let stage = Stage::new().await;
    let before = stage.rows().await;
    let answers = join_all((0..12).map(|_| stage.declare("web", "nginx:1"))).await;
    let made = answers.iter().filter(|answer| answer.changed).count();
    assert_eq!(made, 1);
    let first = answers[0].row.service.id;
    assert!(answers.iter().all(|answer| answer.row.service.id == first));
    assert_eq!(stage.grown(&before).await, grew(&OF_A_SERVICE));
}

#[tokio::test]
async fn concurrent_changes_each_get_a_generation() {
    let stage = Stage::new().await;
    let images: Vec<String> = (0..8).map(|number| format!("nginx:{number}")).collect();
    let answers = join_all(images.iter().map(|image| stage.declare("web", image))).await;
    let mut generations: Vec<i64> =
        answers.iter().map(|answer| answer.row.service.generation).collect();
    generations.sort_unstable();
    assert_eq!(generations, (1..=8).collect::<Vec<_>>());
    let last: i64 =
        stage.one("select requested_seq from wakes where subject_kind = 'service'").await;
    assert_eq!(last, 8);
}

#[tokio::test]
async fn concurrent_and_repeated_declarations_create_one_project() {
    let stage = Stage::new().await;
    let before = stage.rows().await;
    let (context, blog, policy) = (stage.context(), name("blog"), DriftPolicy::default());
    let app = &stage.db.app;
    let declare = || app.accept_project(stage.db.org, &blog, &policy, &context, at(1));
    let answers = join_all((0..8).map(|_| declare())).await;
    let made = answers.iter().filter(|answer| answer.as_ref().unwrap().changed).count();
    assert_eq!(made, 1);
    assert!(!declare().await.unwrap().changed);
    let expected = ["event_queue", "events", "projects", "statuses", "wakes"];
    assert_eq!(stage.grown(&before).await, grew(&expected));
}

/// Polls a future this often, then drops it, as a broken connection drops a request.
async fn cut_after<F: Future>(polls: usize, work: F) -> Option<F::Output> {
    let mut work = pin!(work);
    let mut left = polls;
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

#[tokio::test]
async fn a_request_cancelled_at_any_await_is_recorded_whole_or_not_at_all() {
    let stage = Stage::new().await;
    let whole: &str = "select concat_ws(' ',
        (select count(*) from services), (select count(*) from releases),
        (select count(*) from statuses where subject_kind = 'service'),
        (select count(*) from wakes where subject_kind = 'service'),
        (select count(*) from events where subject_kind = 'service'),
        (select count(*) from event_queue q join services s on s.id = q.subject_id))";
    let request = web("nginx:1");
    let (mut cut, mut done) = (0, 0);
    for polls in 0..40 {
        let service = format!("web-{polls}");
        match cut_after(polls, stage.try_declare(&service, &request, None, 1)).await {
            None => cut += 1,
            Some(answer) => {
                answer.unwrap();
                done += 1;
            }
        }
        // A retry leads to one service either way.
        stage.try_declare(&service, &request, None, 1).await.unwrap();
        let count = polls + 1;
        let expected = vec![count.to_string(); 6].join(" ");
        assert_eq!(stage.one::<String>(whole).await, expected, "{polls} polls");
    }
    assert!(cut > 0 && done > 0, "{cut} cut off, {done} done");
}
