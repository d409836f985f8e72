//! Sealing: readers see one order, in which nothing comes late, twice or never.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use trueup_model::EventId;
use trueup_model::order::Unit;
use trueup_store::door::{Refusal, ServiceAsk};
use trueup_store::{Error, SealedEvent};
use trueup_testkit::test_db::name;
use uuid::Uuid;

use crate::stage::{PROJECT, Stage, at, web};

impl Stage {
    /// A writer whose transaction has recorded an event and stays open.
    async fn slow_writer(&self, event: Uuid) -> PgConnection {
        let mut slow = PgConnection::connect(&self.db.urls.worker).await.unwrap();
        sqlx::raw_sql("begin").execute(&mut slow).await.unwrap();
        sqlx::query(
            "insert into events (id, org_id, source, type, unit_kind, unit_id, generation, at, body)
             values ($1, $2, 'system', 'Slow', 'service', $1, 1, to_timestamp(0), '{}')",
        )
        .bind(event)
        .bind(self.db.org.uuid())
        .execute(&mut slow)
        .await
        .unwrap();
        sqlx::query("insert into event_queue (event_id, org_id, unit_id) values ($1, $2, $1)")
            .bind(event)
            .bind(self.db.org.uuid())
            .execute(&mut slow)
            .await
            .unwrap();
        slow
    }
}

fn positions(events: &[SealedEvent]) -> Vec<i64> {
    events.iter().map(|event| event.position).collect()
}

fn event_id(number: u8) -> Uuid {
    EventId::from_parts(at(0), [number; 10]).uuid()
}

#[tokio::test]
async fn a_faster_writer_does_not_overtake_a_slower_one() {
    let stage = Stage::new().await;
    stage.seal().await;
    let seen = stage.sealed(stage.db.org).await;
    assert_eq!(positions(&seen), [1]);

    let slow = event_id(1);
    let mut writer = stage.slow_writer(slow).await;
    stage.declare("web", "nginx:1").await;
    stage.declare("web", "nginx:2").await;
    for _ in 0..3 {
        assert_eq!(stage.db.worker.seal_events().await.unwrap(), 0);
    }
    assert_eq!(stage.sealed(stage.db.org).await, seen);
    assert_eq!(stage.db.worker.unsealed_events().await.unwrap(), 2);

    sqlx::raw_sql("commit").execute(&mut writer).await.unwrap();
    stage.seal().await;
    // A reader that goes on where it was gets all three, the slow one first: it began first.
    let next = stage.db.app.list_events(stage.db.org, None, 1, 10).await.unwrap();
    assert_eq!(positions(&next), [2, 3, 4]);
    let kinds: Vec<&str> = next.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["Slow", "ServiceQueued", "ServiceQueued"]);
}

#[tokio::test]
async fn a_writer_that_gives_up_leaves_no_gap() {
    let stage = Stage::new().await;
    let mut writer = stage.slow_writer(event_id(1)).await;
    stage.declare("web", "nginx:1").await;
    sqlx::raw_sql("rollback").execute(&mut writer).await.unwrap();
    stage.declare("web", "nginx:2").await;
    stage.seal().await;
    let all = stage.sealed(stage.db.org).await;
    assert_eq!(positions(&all), [1, 2, 3]);
    assert!(all.iter().all(|event| event.kind != "Slow"));
}

#[tokio::test]
async fn sealers_at_once_seal_each_event_once() {
    let stage = Stage::new().await;
    for number in 0..30 {
        stage.declare("web", &format!("nginx:{number}")).await;
    }
    let worker = &stage.db.worker;
    let sealed = join_all((0..6).map(|_| worker.seal_events())).await;
    let sealed: i64 = sealed.into_iter().map(Result::unwrap).sum();
    assert!(sealed <= 31);
    stage.seal().await;
    let all = stage.sealed(stage.db.org).await;
    assert_eq!(positions(&all), (1..=31).collect::<Vec<_>>());
    let generations: Vec<i64> = all[1..].iter().map(|event| event.generation).collect();
    assert_eq!(generations, (1..=30).collect::<Vec<_>>());
}

#[tokio::test]
async fn each_org_counts_for_itself_and_reads_only_its_own() {
    let stage = Stage::new().await;
    let other = stage.db.setup.ensure_org("other", at(0)).await.unwrap();
    stage.project(other).await;
    stage.declare("web", "nginx:1").await;
    stage.seal().await;
    assert_eq!(positions(&stage.sealed(stage.db.org).await), [1, 2]);
    let theirs = stage.sealed(other).await;
    assert_eq!(positions(&theirs), [1]);
    assert_eq!(theirs[0].kind, "ProjectQueued");
}

#[tokio::test]
async fn a_watch_of_a_generation_begins_just_before_its_first_event() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.declare("other", "nginx:1").await;
    stage.declare("web", "nginx:2").await;
    let (app, org) = (&stage.db.app, stage.db.org);
    let unit = Unit::Service(row.service.id);
    // Nothing is sealed yet: from the end, whatever is sealed next.
    assert_eq!(app.generation_position(org, unit, 2).await.unwrap(), 0);
    stage.seal().await;
    for (generation, before) in [(1, 1), (2, 3), (3, 4)] {
        let position = app.generation_position(org, unit, generation).await;
        assert_eq!(position.unwrap(), before, "generation {generation}");
    }
    let events = app.list_events(org, Some(unit), 0, 10).await.unwrap();
    assert_eq!(positions(&events), [2, 4]);
    let page = app.list_events(org, None, 1, 2).await.unwrap();
    assert_eq!(positions(&page), [2, 3]);
}

/// Declares one service, again where the pool was too busy: asking twice is harmless.
async fn write(stage: &Stage, number: u32) {
    let (service, ask) = (name(&format!("web-{number}")), web("nginx:1"));
    let wanted = ServiceAsk::declare(PROJECT, &service, &ask);
    loop {
        let app = &stage.db.app;
        let answer = app.accept_service(stage.db.org, &wanted, &stage.asker(), at(1)).await;
        match answer {
            Ok(_) => return,
            Err(Refusal::Store(Error::Away(_))) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_among_two_hundred_writers_sees_each_event_exactly_once() {
    const WRITERS: u32 = 200;
    let stage = std::sync::Arc::new(Stage::new().await);
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        let stage = std::sync::Arc::clone(&stage);
        writers.spawn(async move { write(&stage, number).await });
    }
    let all = usize::try_from(WRITERS).unwrap() + 1;
    let reader = async {
        let mut seen = Vec::new();
        while seen.len() < all {
            stage.db.worker.seal_events().await.unwrap();
            let after = seen.last().map_or(0, |event: &SealedEvent| event.position);
            let page = stage.db.app.list_events(stage.db.org, None, after, 7).await;
            match page {
                Ok(page) => seen.extend(page),
                Err(Error::Away(_)) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        seen
    };
    let seen = tokio::time::timeout(Duration::from_secs(120), reader);
    let seen = seen.await.expect("every event should be sealed");
    writers.join_all().await;
    let expected: Vec<i64> = (1..).take(all).collect();
    assert_eq!(positions(&seen), expected);
    let distinct: BTreeSet<_> = seen.iter().map(|event| event.id).collect();
    assert_eq!(distinct.len(), all);
    assert_eq!(stage.db.worker.unsealed_events().await.unwrap(), 0);
}
