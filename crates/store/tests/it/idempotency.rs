//! Idempotency keys: a request that is sent twice is applied once.

use std::time::Duration;

use futures::future::join_all;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::door::{Accepted, Refusal, RequestContext, ServiceRequest};
use trueup_store::{IdempotencyKey, ServiceRow};
use trueup_testkit::test_db::name;

use crate::stage::{PROJECT, Stage, at, web};

impl Stage {
    async fn restart(
        &self,
        key: &str,
        body: &[u8],
        seconds: i64,
    ) -> Result<Accepted<ServiceRow>, Refusal> {
        let idempotency_key =
            Some(IdempotencyKey::new("POST /restart".to_owned(), key.to_owned(), body));
        let context = RequestContext { idempotency_key, ..self.context() };
        let wanted = ServiceRequest::act(PROJECT, "web", &ServiceOperation::Restart);
        self.db.app.accept_service(self.db.org, &wanted, &context, at(seconds)).await
    }
}

#[tokio::test]
async fn a_retry_with_the_same_key_acts_once_and_returns_the_current_state() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    let first = stage.restart("k1", b"{}", 2).await.unwrap();
    assert!(first.changed);
    stage.act("web", &ServiceOperation::Pause).await.unwrap();
    let again = stage.restart("k1", b"{}", 3).await.unwrap();
    assert!(!again.changed);
    assert_eq!(again.row.service.generation, 3, "the current state, not the earlier one");
    assert_eq!(again.row.service.spec.restart, 1);
}

#[tokio::test]
async fn another_body_under_the_same_key_is_refused() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    stage.restart("k1", b"{}", 2).await.unwrap();
    let refused = stage.restart("k1", b"{ }", 3).await;
    assert!(matches!(refused, Err(Refusal::KeyReused)), "{refused:?}");
    assert!(stage.restart("k2", b"{ }", 3).await.unwrap().changed);
}

#[tokio::test]
async fn concurrent_requests_with_one_key_act_once() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    let answers = join_all((0..10).map(|_| stage.restart("k1", b"{}", 2))).await;
    let changed = answers.iter().filter(|answer| answer.as_ref().unwrap().changed).count();
    assert_eq!(changed, 1);
    assert_eq!(stage.find("web").await.unwrap().service.spec.restart, 1);
}

#[tokio::test]
async fn a_refusal_does_not_use_up_the_key() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    stage.act("web", &ServiceOperation::Pause).await.unwrap();
    stage.restart("k1", b"{}", 2).await.unwrap_err();
    stage.act("web", &ServiceOperation::Resume).await.unwrap();
    assert!(stage.restart("k1", b"{}", 3).await.unwrap().changed);
}

#[tokio::test]
async fn a_key_is_kept_for_seven_days() {
    let week = 7 * 24 * 3600;
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    stage.restart("k1", b"{}", 2).await.unwrap();
    assert!(!stage.restart("k1", b"{}", week + 1).await.unwrap().changed);
    assert_eq!(stage.db.worker.purge_idempotency_keys(at(week + 1)).await.unwrap(), 0);
    assert_eq!(stage.db.worker.purge_idempotency_keys(at(week + 2)).await.unwrap(), 1);
    assert!(stage.restart("k1", b"{}", week + 3).await.unwrap().changed);
}

/// L6: whoever waits with a key makes only the same principal's requests with that key wait.
#[tokio::test]
async fn key_of_one_org_makes_no_other_org_wait() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    let theirs = stage.db.setup.ensure_org("other", at(0)).await.unwrap();
    stage.project(theirs).await;
    let (web_name, request) = (name("web"), web("shop:1"));
    let declare = ServiceRequest::declare(PROJECT, &web_name, &request);
    let app = &stage.db.app;
    app.accept_service(theirs, &declare, &stage.context(), at(1)).await.unwrap();

    // The request of the first org has its key, and waits for the service.
    let mut lock = stage.owner.acquire().await.unwrap();
    sqlx::raw_sql("begin").execute(&mut *lock).await.unwrap();
    let row = "select from services where org_id = $1 for update";
    sqlx::query(row).bind(stage.db.org.uuid()).execute(&mut *lock).await.unwrap();
    let key = || Some(IdempotencyKey::new("POST /restart".to_owned(), "k1".to_owned(), b"{}"));
    let waits = async {
        let held = "select count(*) from pg_locks where locktype = 'advisory' and granted
            and database = (select oid from pg_database where datname = current_database())";
        while stage.one::<i64>(held).await == 0 {
            tokio::task::yield_now().await;
        }
        let context = RequestContext { idempotency_key: key(), ..stage.context() };
        let act = ServiceRequest::act(PROJECT, "web", &ServiceOperation::Restart);
        let other = app.accept_service(theirs, &act, &context, at(2));
        let other = tokio::time::timeout(Duration::from_secs(20), other).await;
        sqlx::raw_sql("rollback").execute(&mut *lock).await.unwrap();
        other
    };
    let (first, other) = tokio::join!(stage.restart("k1", b"{}", 2), waits);
    assert!(first.unwrap().changed);
    assert!(other.expect("the other org should not wait").unwrap().changed);
}
