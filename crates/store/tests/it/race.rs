//! F18: two who want the same rows in another order. The database ends one of them with a deadlock; when
//! that is the door, the whole transaction begins anew, and the caller hears nothing of it.

use std::time::Duration;

use sqlx::{Connection, PgConnection};
use trueup_model::id::ServiceId;
use trueup_model::variable::VariableName;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::Error;
use trueup_store::door::{EntryRequest, Refusal};

use crate::stage::{PROJECT, Stage, at};

/// On a busy machine the other one may be ended instead of the door. More rounds than that ever takes.
const ROUNDS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// Somebody who holds what the door takes last, and wants what it takes first.
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
        let held = sqlx::query("select 1 from wakes where unit_id = $1 for update")
            .bind(service.uuid())
            .execute(&mut connection)
            .await
            .unwrap();
        assert_eq!(held.rows_affected(), 1, "there should be a wake to hold");
        Self { connection, pid }
    }

    /// Wants the service's row as soon as somebody waits for the wake. Answers whether it got the row, and
    /// so whether it was the door that was ended.
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
async fn f18_an_action_that_met_a_deadlock_is_done_once_all_the_same() {
    let stage = Stage::new().await;
    let service = stage.declare("web", "shop:1").await.row.service.id;
    for round in 1..=ROUNDS {
        let other = Other::holding_the_wake(&stage, service).await;
        let (accepted, was_ended) = tokio::join!(
            stage.act("web", &ServiceOperation::Restart),
            other.wants_the_service(&stage, service)
        );
        let service = accepted.unwrap().row.service;
        let times = i64::try_from(round).unwrap();
        assert_eq!((service.generation, i64::from(service.spec.restart)), (1 + times, times));
        let queued = stage.events_of(service.id.uuid()).await;
        assert_eq!(queued.len(), round + 1, "{queued:?}");
        if was_ended {
            return;
        }
    }
    panic!("the door was never ended");
}

#[tokio::test]
async fn f18_a_variable_that_met_a_deadlock_is_set_once_all_the_same() {
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
        let (set, was_ended) = tokio::join!(set, other.wants_the_service(&stage, service));
        assert_eq!(set.unwrap().row.version, i64::try_from(round).unwrap());
        if was_ended {
            return;
        }
    }
    panic!("the door was never ended");
}

#[tokio::test]
async fn f18_rows_that_are_always_taken_are_told_after_some_tries() {
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
    assert_eq!(stage.find("web").await.unwrap().service.generation, 1, "nothing is recorded");
}
