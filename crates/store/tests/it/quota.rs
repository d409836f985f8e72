//! Quotas: never exceeded under concurrency, and released only after verified deletion.

use futures::future::join_all;
use serde_json::Map;
use trueup_model::drift::DriftPolicy;
use trueup_model::quota::Amounts;
use trueup_rules::admit::AdmissionRequest;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::door::{Refusal, ServiceRequest};
use trueup_testkit::report_batch::RecordReports as _;
use trueup_testkit::test_db::name;

use crate::stage::{PROJECT, Stage, at, converged, gone, web};

const PLENTY: Amounts = Amounts {
    services: 1000,
    cpu_millis: 1_000_000,
    memory_mib: 1_000_000,
    storage_gib: 1_000_000,
    gpus: 0,
    projects: 1000,
    endpoints: 1000,
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
    let Err(Refusal::OverQuota { more, quota, .. }) =
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
    let project = Amounts { projects: 1, ..Amounts::default() };
    assert_eq!(stage.used().await, project);
    stage.db.worker.record_reports(lease, &[gone(&row, 3)], at(7)).await.unwrap();
    assert_eq!(stage.used().await, project, "reported twice, released once");
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

/// M1: a project takes a namespace of the cluster, so an org has only so many, however it asks.
#[tokio::test]
async fn concurrent_projects_get_exactly_the_quota_and_count_until_their_absence_is_verified() {
    let stage = Stage::new().await;
    stage.limit(Amounts { projects: 6, ..PLENTY }).await;
    let (app, org, drift) = (&stage.db.app, stage.db.org, DriftPolicy::default());
    let names: Vec<_> = (0..30).map(|number| name(&format!("project-{number}"))).collect();
    let requests = names
        .iter()
        .map(|name| async { app.accept_project(org, name, &drift, &stage.context(), at(1)).await });
    let answers = join_all(requests).await;
    let (accepted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((accepted.len(), refused.len()), (5, 25), "the stage has one already");
    for refusal in refused {
        let Err(Refusal::OverQuota { more, quota, .. }) = refusal else { panic!("{refusal:?}") };
        assert_eq!((more.projects, quota.limit.projects), (1, 6));
    }
    assert_eq!(stage.used().await.projects, 6);
    assert_eq!(stage.one::<i64>("select count(*) from projects").await, 6);
    // A service that names a project that does not exist creates it: the same limit holds.
    let (web_name, request) = (name("web"), web("shop:1"));
    let wanted = ServiceRequest::declare("another", &web_name, &request);
    let created = app.accept_service(org, &wanted, &stage.context(), at(2)).await;
    assert!(matches!(created, Err(Refusal::OverQuota { .. } | Refusal::NotFound("project"))));

    let row = accepted.into_iter().next().unwrap().unwrap().row;
    let id = row.project.id.to_string();
    let deleting = app.delete_project(org, &id, &stage.context(), at(3)).await.unwrap().row;
    assert_eq!(stage.used().await.projects, 6, "its namespace still exists");
    let lease = stage.lease().await;
    for again in 0..2 {
        let proof = crate::project::proof(&deleting);
        stage.db.worker.record_reports(lease, &[proof], at(4 + again)).await.unwrap();
        assert_eq!(stage.used().await.projects, 5, "verified, and released once");
    }
}

/// M1: the ports of a cluster belong to all orgs, so an org has only so many in all its projects.
#[tokio::test]
async fn endpoints_are_limited_over_all_projects_and_count_until_their_port_is_released() {
    let stage = Stage::new().await;
    stage.limit(Amounts { endpoints: 3, ..PLENTY }).await;
    let row = stage.declare("web", "shop:1").await.row;
    let other = stage.declare("api", "shop:1").await.row;
    for (service, endpoint) in [("web", "one"), ("web", "two"), ("api", "one")] {
        stage.open(stage.db.org, service, endpoint).await.unwrap();
    }
    let fourth = stage.open(stage.db.org, "api", "two").await;
    let Err(Refusal::OverQuota { more, quota, .. }) = fourth else { panic!("{fourth:?}") };
    assert_eq!((more.endpoints, quota.used.endpoints), (1, 3));
    let free = "select count(*) from endpoint_ports where endpoint_id is null";
    assert_eq!(stage.one::<i64>(free).await, 5, "a refused request holds no port");
    // Opening it again, or for another port, is not another endpoint.
    stage.open(stage.db.org, "web", "one").await.unwrap();

    let lease = stage.lease().await;
    stage.close("web", "one").await.unwrap();
    assert_eq!(stage.used().await.endpoints, 3, "the cluster may still have it");
    stage.db.worker.record_reports(lease, &[converged(&row, 4)], at(5)).await.unwrap();
    assert_eq!(stage.used().await.endpoints, 2);
    stage.delete("api").await.unwrap();
    for again in 0..2 {
        stage.db.worker.record_reports(lease, &[gone(&other, 3)], at(6 + again)).await.unwrap();
        assert_eq!(stage.used().await.endpoints, 1);
    }
}

/// L5: the claims of removed pods stay until the service is deleted, and so does their share of the disk.
#[tokio::test]
async fn disk_of_removed_pods_stays_reserved_until_the_service_is_deleted() {
    let stage = Stage::new().await;
    let sized = AdmissionRequest {
        template: "minecraft@1".parse().unwrap(),
        parameters: Map::new(),
        ..web("shop:1")
    };
    let row = stage.try_declare("game", &sized, None, 1).await.unwrap().row;
    let one = stage.used().await.storage_gib;
    assert!(one > 0, "a game has a disk");
    // Its own operations keep one pod, so three are written as an earlier version accepted them.
    let scaled = "update reservations set storage_gib = storage_gib * 3;
                  update quotas set storage_gib_used = storage_gib_used * 3";
    sqlx::raw_sql(scaled).execute(&stage.owner).await.unwrap();
    stage.act("game", &ServiceOperation::Restart).await.unwrap();
    assert_eq!(
        stage.used().await.storage_gib,
        3 * one,
        "nothing deletes the claims of removed pods"
    );
    stage.delete("game").await.unwrap();
    assert_eq!(stage.used().await.storage_gib, 3 * one);
    let lease = stage.lease().await;
    stage.db.worker.record_reports(lease, &[gone(&row, 3)], at(6)).await.unwrap();
    assert_eq!(stage.used().await.storage_gib, 0);
}
