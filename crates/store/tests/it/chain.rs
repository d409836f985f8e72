//! The hash chain in the database: it verifies, detects tampering, and covers older events.

use sqlx::AssertSqlSafe;
use trueup_model::event::{wire_source, wire_type};
use trueup_rules::event::chain::{Break, Content, Walk};
use trueup_store::{EventQuery, RolePasswords, SealedEvent, bootstrap};
use trueup_testkit::report_batch::RecordReports as _;
use trueup_testkit::test_db::server;

use crate::stage::{Stage, at, converged};

/// Follows the chain of these events.
fn walk(events: &[SealedEvent]) -> Result<Walk, Break> {
    let mut walk = Walk::new(events[0].org);
    for event in events {
        let cause = event.cause.map(|cause| cause.to_string());
        let content = Content {
            id: &event.id.to_string(),
            source: &wire_source(&event.source),
            kind: &wire_type(&event.kind, event.version),
            subject: &event.subject.to_string(),
            generation: event.generation,
            time: event.at,
            trace: event.trace.as_deref(),
            cause: cause.as_deref(),
            data: &event.body,
        };
        walk.step(event.position, &event.hash.to_string(), &content)?;
    }
    Ok(walk)
}

/// Checks that the chain of these events holds to its end.
pub(crate) fn verified(events: &[SealedEvent]) {
    let end = walk(events).unwrap_or_else(|found| panic!("{found:?}"));
    assert_eq!(end.position(), events.last().map_or(0, |event| event.position));
    assert_eq!(Some(end.head()), events.last().map(|event| event.hash));
}

impl Stage {
    /// Changes history, as only the owner can.
    async fn tamper(&self, statement: &str) {
        let done = sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&self.owner).await;
        assert!(done.unwrap().rows_affected() > 0, "{statement}");
    }

    /// Bootstraps the database again, as each start of the program does.
    async fn start_again(&self) {
        let password = "only-for-tests".to_owned();
        let passwords =
            RolePasswords { owner: password.clone(), app: password.clone(), worker: password };
        let database: String = self.one("select current_database()::text").await;
        bootstrap(server().await, &database, &passwords).await.unwrap();
    }
}

#[tokio::test]
async fn each_org_has_its_own_chain_over_many_batches() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let other = stage.db.setup.ensure_org("other", at(0)).await.unwrap();
    stage.project(other).await;
    for number in 0..5 {
        let row = stage.declare("web", &format!("nginx:{number}")).await.row;
        stage.seal().await;
        let report = converged(&row, number + 1);
        stage.db.worker.record_reports(lease, &[report], at(10)).await.unwrap();
    }
    stage.seal().await;
    let (ours, theirs) = (stage.sealed(stage.db.org).await, stage.sealed(other).await);
    verified(&ours);
    verified(&theirs);
    assert_ne!(ours[0].hash, theirs[0].hash);
    let unstamped: i64 =
        stage.one("select count(*) from event_seals where sealed_at is null").await;
    assert_eq!(unstamped, 0);
}

#[tokio::test]
async fn tampering_is_found_at_the_first_changed_position() {
    const EVENT: &str = "(select event_id from event_seals where position =";
    let changes = [
        (
            format!(
                "update events set body = body || '{{\"principal\": \"x\"}}' where id = {EVENT} 3)"
            ),
            3,
        ),
        (format!("update events set at = at + interval '1 microsecond' where id = {EVENT} 2)"), 2),
        (format!("update events set trace = null where id = {EVENT} 2)"), 2),
        (format!("update events set cause = id where id = {EVENT} 4)"), 4),
        ("delete from event_seals where position = 3".to_owned(), 3),
        (
            "update event_seals s set event_id = t.event_id from event_seals t
             where s.position in (2, 4) and t.position = 6 - s.position"
                .to_owned(),
            2,
        ),
        ("update event_seals set hash = sha256(hash) where position = 5".to_owned(), 5),
    ];
    for (statement, position) in changes {
        let stage = Stage::new().await;
        for number in 1..=5 {
            stage.declare("web", &format!("nginx:{number}")).await;
        }
        stage.seal().await;
        verified(&stage.sealed(stage.db.org).await);
        stage
            .tamper("alter table event_seals drop constraint event_seals_event_key; select 1")
            .await;
        stage.tamper(&statement).await;
        let found = walk(&stage.sealed(stage.db.org).await).unwrap_err();
        assert_eq!(found.position, position, "{statement}: {found:?}");
    }
}

#[tokio::test]
async fn events_sealed_before_the_chain_existed_are_hashed_at_start() {
    let stage = Stage::new().await;
    let other = stage.db.setup.ensure_org("other", at(0)).await.unwrap();
    stage.project(other).await;
    for number in 1..=7 {
        stage.declare("web", &format!("nginx:{number}")).await;
    }
    stage.seal().await;
    let before = stage.sealed(stage.db.org).await;
    // The state that an older version left.
    stage.tamper("alter table event_seals alter column hash drop not null; select 1").await;
    stage.tamper("update event_seals set hash = null").await;
    stage.start_again().await;
    stage.start_again().await;
    assert_eq!(stage.sealed(stage.db.org).await, before);
    let theirs = stage.events(other, EventQuery::default()).await;
    verified(&theirs);
    let required: bool = stage
        .one(
            "select attnotnull from pg_attribute
             where attrelid = 'event_seals'::regclass and attname = 'hash'",
        )
        .await;
    assert!(required);
    stage.declare("web", "nginx:8").await;
    stage.seal().await;
    verified(&stage.sealed(stage.db.org).await);
}

#[tokio::test]
async fn events_restored_from_another_postgres_are_sealed_after_the_next_start() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    // The other server's transaction ids were higher.
    stage.tamper("update event_queue set xid = '999999999999'").await;
    assert_eq!(stage.db.worker.seal_events(at(2)).await.unwrap(), 0);
    stage.start_again().await;
    stage.seal().await;
    let events = stage.sealed(stage.db.org).await;
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["ProjectQueued", "ServiceQueued"]);
    verified(&events);
}
