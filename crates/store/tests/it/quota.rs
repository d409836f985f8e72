//! Quotas: never exceeded under concurrency, and released only after verified deletion.

use futures::future::join_all;
use trueup_model::quota::Amounts;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::door::{Refusal, ServiceRequest};
use trueup_testkit::report_batch::RecordReports as _;
use trueup_testkit::test_db::name;

use crate::stage::{PROJECT, Stage, at, gone, web};

const PLENTY: Amounts = Amounts {
    services: 1000,
    cpu_millis: 1_000_000,
    memory_mib: 1_000_000,
    storage_gib: 1_000_000,
    gpus: 0,
};

impl Stage {
    async fn limit(&self, limit: Amounts) {
        let app = &self.db.app;
        app.put_quota(self.db.org, limit, &self.context(), at(0)).await.unwrap();
    }

    async fn used(&self) -> Amounts {
        self.db.app.find_quota(self.db.org).await.unwrap().used
    }
}

/// S18: 200 concurrent requests get exactly what is left.
#[tokio::test]
async fn two_hundred_concurrent_requests_get_exactly_the_quota() {
    let stage = Stage::new().await;
    stage.limit(Amounts { services: 37, ..PLENTY }).await;
    let request = web("shop:1");
    let names: Vec<_> = (0..200).map(|number| name(&format!("web-{number}"))).collect();
    let requests = names.iter().map(|name| async {
        let wanted = ServiceRequest::declare(PROJECT, name, &request);
        stage.db.app.accept_service(stage.db.org, &wanted, &stage.context(), at(1)).await
    });
    let answers = join_all(requests).await;
    let accepted = answers.iter().filter(|answer| answer.is_ok()).count();
    let refused =
        answers.iter().filter(|answer| matches!(answer, Err(Refusal::OverQuota { .. }))).count();
    assert_eq!((accepted, refused), (37, 163));
    assert_eq!(stage.used().await.services, 37);
    let rows: i64 = stage.one("select count(*) from services").await;
    assert_eq!(rows, 37, "a refusal leaves nothing behind");
    let events: i64 = stage.one("select count(*) from events where type = 'ServiceQueued'").await;
    assert_eq!(events, 37);
}

#[tokio::test]
async fn a_refusal_says_what_is_short_and_records_nothing() {
    let stage = Stage::new().await;
    stage.limit(Amounts { cpu_millis: 600, ..PLENTY }).await;
    stage.declare("web", "shop:1").await;
    let before = stage.rows().await;
    let Err(Refusal::OverQuota { more, quota }) =
        stage.act("web", &ServiceOperation::Scale { replicas: 3 }).await
    else {
        panic!("three pods of 250 are more than 600");
    };
    assert_eq!(more.cpu_millis, 500);
    let short: Vec<_> =
        quota.short_of(more).map(|(resource, left)| (resource.into_str(), left)).collect();
    assert_eq!(short, [("cpu_millis", 350)]);
    assert_eq!(stage.grown(&before).await, []);
    assert_eq!(stage.used().await.cpu_millis, 250);
    stage.act("web", &ServiceOperation::Scale { replicas: 2 }).await.unwrap();
    assert_eq!(stage.used().await.cpu_millis, 500);
}

#[tokio::test]
async fn a_paused_service_keeps_its_reservation_and_a_deleted_one_its_capacity_until_verified() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "shop:1").await.row;
    let held = stage.used().await;
    assert_eq!((held.services, held.cpu_millis, held.memory_mib), (1, 250, 256));
    stage.act("web", &ServiceOperation::Pause).await.unwrap();
    assert_eq!(stage.used().await, held);

    stage.delete("web").await.unwrap();
    let leaving = stage.used().await;
    assert_eq!(leaving, held.capacity(), "the count is free at once, the capacity is not");

    let lease = stage.lease().await;
    let settled = stage.db.worker.record_reports(lease, &[gone(&row, 3)], at(6)).await.unwrap();
    assert_eq!(settled, 1);
    assert_eq!(stage.used().await, Amounts::default());
    stage.db.worker.record_reports(lease, &[gone(&row, 3)], at(7)).await.unwrap();
    assert_eq!(stage.used().await, Amounts::default(), "reported twice, released once");
}

#[tokio::test]
async fn an_org_above_its_limit_can_still_scale_down() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    stage.act("web", &ServiceOperation::Scale { replicas: 8 }).await.unwrap();
    stage.limit(Amounts::default()).await;
    let more = stage.act("web", &ServiceOperation::Scale { replicas: 9 }).await;
    assert!(matches!(more, Err(Refusal::OverQuota { .. })), "{more:?}");
    stage.act("web", &ServiceOperation::Scale { replicas: 7 }).await.unwrap();
    stage.act("web", &ServiceOperation::Restart).await.unwrap();
    stage.delete("web").await.unwrap();
}
