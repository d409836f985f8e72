//! F18: two transactions lock the same rows in opposite order.
//!
//! Postgres aborts one of them with a deadlock. If that is the door's, the whole transaction is
//! retried and the caller does not notice.

use std::time::Duration;

use sqlx::{Connection, PgConnection};
use trueup_model::id::ServiceId;
use trueup_model::variable::VariableName;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::Error;
use trueup_store::door::{EntryRequest, Refusal};

use crate::stage::{PROJECT, Stage, at};

/// On a busy machine Postgres may abort the other transaction instead of the door's. Enough rounds.
const ROUNDS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// A transaction that holds the row which the door locks last, and wants the one it locks first.
struct Other {
    connection: PgConnection,
    pid: i32,
}

impl Other {
    async fn holding_the_wake(stage: &Stage, service: ServiceId) -> Self {
        let mut connection = PgConnection::connect(&stage.db.urls.owner).await.unwrap();
        let (pid,) =
            sqlx::query_as("select pg_backend_pid()").fetch_one(&mut connection).await.unwrap();
        sqlx::query("begin").execute(&mut connection).await.unwrap();
        let held = sqlx::query("select 1 from wakes where subject_id = $1 for update")
            .bind(service.uuid())
            .execute(&mut connection)
            .await
            .unwrap();
        assert_eq!(held.rows_affected(), 1, "there should be a wake to hold");
        Self { connection, pid }
    }

    /// Locks the service's row as soon as the door waits for the wake.
    ///
    /// Returns whether it got the row, that is, whether the door's transaction was aborted.
    async fn wants_the_service(mut self, stage: &Stage, service: ServiceId) -> bool {
        let waited_for = "select exists (select 1 from pg_locks where not granted and $1 = any(pg_blocking_pids(pid)))";
        let waiting = async {
            loop {
                let (met,): (bool,) = sqlx::query_as(waited_for)
                    .bind(self.pid)
                    .fetch_one(&stage.owner)
                    .await
                    .unwrap();
                if met {
                    break;
                }
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("the door should wait for the wake");
        let got = sqlx::query("select 1 from services where id = $1 for update")
            .bind(service.uuid())
            .execute(&mut self.connection)
            .await;
        sqlx::query("rollback").execute(&mut self.connection).await.unwrap();
        got.is_ok()
    }
}

#[tokio::test]
async fn f18_action_is_retried_after_a_deadlock_and_applied_once() {
    let stage = Stage::new().await;
    let service = stage.declare("web", "shop:1").await.row.service.id;
    for round in 1..=ROUNDS {
        let other = Other::holding_the_wake(&stage, service).await;
        let (accepted, was_aborted) = tokio::join!(
            stage.act("web", &ServiceOperation::Restart),
            other.wants_the_service(&stage, service)
        );
        let service = accepted.unwrap().row.service;
        let times = i64::try_from(round).unwrap();
        assert_eq!((service.generation, i64::from(service.spec.restart)), (1 + times, times));
        let queued = stage.events_of(service.id.uuid()).await;
        assert_eq!(queued.len(), round + 1, "{queued:?}");
        if was_aborted {
            return;
        }
    }
    panic!("the door's transaction was never aborted");
}

#[tokio::test]
async fn f18_variable_is_retried_after_a_deadlock_and_set_once() {
    let stage = Stage::new().await;
    let service = stage.declare("web", "shop:1").await.row.service.id;
    let variable: VariableName = "GREETING".parse().unwrap();
    for round in 1..=ROUNDS {
        let other = Other::holding_the_wake(&stage, service).await;
        let wanted = EntryRequest {
            project: PROJECT,
            service: Some("web"),
            name: &variable,
            if_version: None,
        };
        let (value, context) = (round.to_string(), stage.context());
        let set = stage.db.app.set_variable(stage.db.org, &wanted, &value, &context, at(3));
        let (set, was_aborted) = tokio::join!(set, other.wants_the_service(&stage, service));
        assert_eq!(set.unwrap().row.version, i64::try_from(round).unwrap());
        if was_aborted {
            return;
        }
    }
    panic!("the door's transaction was never aborted");
}

#[tokio::test]
async fn f18_permanent_conflict_is_reported_after_bounded_retries() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    sqlx::raw_sql(
        "create function always_taken() returns trigger language plpgsql as $$
         begin raise exception 'taken' using errcode = 'deadlock_detected'; end $$;
         create trigger always_taken before update on services
             for each row execute function always_taken();",
    )
    .execute(&stage.owner)
    .await
    .unwrap();
    let refused = stage.act("web", &ServiceOperation::Restart).await;
    assert!(matches!(refused, Err(Refusal::Store(Error::Overtaken))), "{refused:?}");
    assert_eq!(stage.find("web").await.unwrap().service.generation, 1, "nothing was recorded");
}
