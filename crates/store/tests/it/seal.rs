//! Sealing: readers see one order without late, duplicate or missing events.

use futures::future::join_all;
use sqlx::{Connection, PgConnection};
use trueup_model::EventId;
use trueup_model::order::Unit;
use trueup_store::{EventQuery, SealedEvent};
use uuid::Uuid;

use crate::stage::{Stage, at};

impl Stage {
    /// A writer whose transaction has recorded an event and stays open.
    async fn slow_writer(&self, event: Uuid) -> PgConnection {
        let mut slow = PgConnection::connect(&self.db.urls.worker).await.unwrap();
        sqlx::raw_sql("begin").execute(&mut slow).await.unwrap();
        sqlx::query(
            "insert into events (id, org_id, source, type, subject_kind, subject_id, generation, at, body)
             values ($1, $2, 'system', 'Slow', 'service', $1, 1, to_timestamp(0), '{}')",
        )
        .bind(event)
        .bind(self.db.org.uuid())
        .execute(&mut slow)
        .await
        .unwrap();
        sqlx::query("insert into event_queue (event_id, org_id, subject_id) values ($1, $2, $1)")
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
        assert_eq!(stage.db.worker.seal_events(at(9)).await.unwrap(), 0);
    }
    assert_eq!(stage.sealed(stage.db.org).await, seen);
    assert_eq!(stage.db.unsealed().await, 2);

    sqlx::raw_sql("commit").execute(&mut writer).await.unwrap();
    stage.seal().await;
    // A reader that continues gets all three, the slow one first: it began first.
    let next =
        stage.events(stage.db.org, EventQuery { after: Some(1), ..EventQuery::default() }).await;
    assert_eq!(positions(&next), [2, 3, 4]);
    let kinds: Vec<&str> = next.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["Slow", "ServiceQueued", "ServiceQueued"]);
}

#[tokio::test]
async fn a_rolled_back_writer_leaves_no_gap() {
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
async fn concurrent_sealers_seal_each_event_once() {
    let stage = Stage::new().await;
    for number in 0..30 {
        stage.declare("web", &format!("nginx:{number}")).await;
    }
    let worker = &stage.db.worker;
    let sealed = join_all((0..6).map(|_| worker.seal_events(at(9)))).await;
    let sealed: usize = sealed.into_iter().map(Result::unwrap).sum();
    assert!(sealed <= 31);
    stage.seal().await;
    let all = stage.sealed(stage.db.org).await;
    assert_eq!(positions(&all), (1..=31).collect::<Vec<_>>());
    let generations: Vec<i64> = all[1..].iter().map(|event| event.generation).collect();
    assert_eq!(generations, (1..=30).collect::<Vec<_>>());
}

#[tokio::test]
async fn positions_are_counted_per_org() {
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
    // Nothing is sealed yet: from the end, before the next sealed event.
    assert_eq!(app.generation_position(org, unit, 2).await.unwrap(), 0);
    stage.seal().await;
    for (generation, before) in [(1, 1), (2, 3), (3, 4)] {
        let position = app.generation_position(org, unit, generation).await;
        assert_eq!(position.unwrap(), before, "generation {generation}");
    }
    let events =
        stage.events(org, EventQuery { of: Some(unit.into()), ..EventQuery::default() }).await;
    assert_eq!(positions(&events), [2, 4]);
    let query = EventQuery { after: Some(1), limit: 2, ..EventQuery::default() };
    let page = stage.events(org, query).await;
    assert_eq!(positions(&page), [2, 3]);
}
