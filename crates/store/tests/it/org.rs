//! Deleting an org: accepted once with all of its projects, and nothing new is accepted in it.

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use trueup_model::OrgId;
use trueup_model::drift::DriftPolicy;
use trueup_model::event::{Fact, OrgDeleteQueued};
use trueup_model::org::{Org, PLATFORM};
use trueup_model::service::DesiredState;
use trueup_store::door::{Accepted, Refusal, RequestContext, ServiceRequest};
use trueup_testkit::report_batch::RecordReports as _;
use trueup_testkit::test_db::name;

use crate::life::operator;
use crate::project::proof;
use crate::stage::{PROJECT, Stage, at, gone, web};

impl Stage {
    async fn delete_org(&self, seconds: i64) -> Accepted<Org> {
        let operator = operator(self);
        let context = RequestContext::new(&operator, None);
        self.db.app.delete_org(self.db.org, &context, at(seconds)).await.unwrap()
    }

    async fn deleting_at(&self, org: OrgId) -> Option<jiff::Timestamp> {
        self.db.app.get_org(org).await.unwrap().unwrap().deleting_at
    }
}

/// A stage with the projects `blog` and `shop`, and two services in the latter.
async fn two_projects() -> Stage {
    let stage = Stage::new().await;
    stage.declare("api", "nginx:1").await;
    stage.declare("web", "nginx:1").await;
    let app = &stage.db.app;
    app.accept_project(
        stage.db.org,
        &name("blog"),
        &DriftPolicy::default(),
        &stage.context(),
        at(1),
    )
    .await
    .unwrap();
    stage
}

#[tokio::test]
async fn deleting_an_org_deletes_each_project_and_service_once() {
    let stage = two_projects().await;
    stage.delete("api").await.unwrap();
    let accepted = stage.delete_org(3).await;
    assert_eq!((accepted.changed, accepted.row.deleting_at), (true, Some(at(3))));
    for project in stage.db.app.list_projects(stage.db.org).await.unwrap() {
        assert_eq!(project.desired, DesiredState::Deleted, "{}", project.project.name);
    }
    let generation = async |service: &str| stage.find(service).await.unwrap().service.generation;
    assert_eq!((generation("api").await, generation("web").await), (2, 2));
    assert_eq!(stage.find("web").await.unwrap().service.desired, DesiredState::Deleted);

    stage.seal().await;
    let events = stage.sealed(stage.db.org).await;
    let facts: Vec<Fact> = events
        .iter()
        .filter(|event| event.kind == "OrgDeleteQueued")
        .map(|event| serde_json::from_value(event.body.clone()).unwrap())
        .collect();
    let principal = operator(&stage).id.to_string();
    assert_eq!(
        facts,
        [Fact::OrgDeleteQueued(OrgDeleteQueued { projects: 2, services: 1, principal })]
    );

    let before = stage.rows().await;
    let again = stage.delete_org(4).await;
    assert_eq!(again, Accepted { row: accepted.row, changed: false });
    assert_eq!(stage.grown(&before).await, [], "a repeated request changes nothing");
}

#[tokio::test]
async fn an_org_being_deleted_accepts_no_project() {
    let stage = Stage::new().await;
    let (app, org) = (&stage.db.app, stage.db.org);
    let other = stage.db.setup.ensure_org("other", at(0)).await.unwrap();
    stage.delete_org(3).await;
    let (fresh, service, request) = (name("fresh"), name("web"), web("nginx:1"));
    let declared =
        app.accept_project(org, &fresh, &DriftPolicy::default(), &stage.context(), at(4)).await;
    assert!(matches!(declared, Err(Refusal::OrgBeingDeleted)), "{declared:?}");
    let wanted = ServiceRequest {
        with_project: Some(&fresh),
        ..ServiceRequest::declare("fresh", &service, &request)
    };
    let declared = app.accept_service(org, &wanted, &stage.context(), at(4)).await;
    assert!(matches!(declared, Err(Refusal::OrgBeingDeleted)), "{declared:?}");
    assert!(
        app.accept_project(other, &fresh, &DriftPolicy::default(), &stage.context(), at(4))
            .await
            .unwrap()
            .changed
    );
}

#[tokio::test]
async fn a_dry_run_of_an_org_deletion_shows_every_unit_and_saves_nothing() {
    let stage = two_projects().await;
    let operator = operator(&stage);
    let context = RequestContext::new(&operator, None);
    let before = stage.rows().await;
    let dry_run = stage.db.app.dry_run();
    let accepted = dry_run.app().delete_org(stage.db.org, &context, at(3)).await.unwrap();
    assert!(accepted.changed);
    let units: Vec<String> = dry_run.seen().units.into_iter().map(|unit| unit.name).collect();
    assert_eq!(units, ["blog", "shop", "shop/api", "shop/web"]);
    assert_eq!(stage.grown(&before).await, []);
    assert_eq!(stage.deleting_at(stage.db.org).await, None);
}

/// A project that is created at the same time is deleted with the org, or refused.
#[tokio::test]
async fn no_project_escapes_a_concurrent_org_deletion() {
    let stage = Stage::new().await;
    let (app, org, context) = (&stage.db.app, stage.db.org, stage.context());
    let names: Vec<_> = (0..8).map(|number| name(&format!("p{number}"))).collect();
    let create = async |half: &[trueup_model::name::Name]| {
        for name in half {
            match app.accept_project(org, name, &DriftPolicy::default(), &context, at(2)).await {
                Ok(_) | Err(Refusal::OrgBeingDeleted) => {}
                Err(other) => panic!("{name}: {other:?}"),
            }
        }
    };
    tokio::join!(create(&names[..4]), stage.delete_org(3), create(&names[4..]));
    let left: Vec<String> = stage.all("select name from projects where desired <> 'deleted'").await;
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn receipts_of_an_org_are_grouped_by_project() {
    let stage = two_projects().await;
    let (app, org, lease) = (&stage.db.app, stage.db.org, stage.lease().await);
    stage.delete_org(3).await;
    let mut reports = Vec::new();
    for service in ["api", "web"] {
        reports.push(gone(&stage.find(service).await.unwrap(), 2));
    }
    let shop = app.find_project(org, PROJECT).await.unwrap().unwrap();
    stage.db.worker.record_reports(lease, &reports, at(6)).await.unwrap();
    stage.db.worker.record_reports(lease, &[proof(&shop)], at(7)).await.unwrap();
    let bundles = app.list_org_receipts(org).await.unwrap();
    let shown: Vec<(&str, Vec<(&str, bool)>)> = bundles
        .iter()
        .map(|bundle| {
            let rows = bundle.rows.iter().map(|row| (row.name.as_str(), row.receipt.is_some()));
            (bundle.name.as_str(), rows.collect())
        })
        .collect();
    let of_shop = vec![("api", true), ("web", true), ("shop", true)];
    assert_eq!(shown, [("blog", vec![("blog", false)]), ("shop", of_shop)]);
    let other = stage.db.setup.ensure_org("other", at(0)).await.unwrap();
    assert_eq!(app.list_org_receipts(other).await.unwrap(), []);
}

/// S16: an org is marked by a transaction in its own name only, also by operators.
#[tokio::test]
async fn s16_no_other_org_can_mark_an_org_as_being_deleted() {
    let stage = Stage::new().await;
    let other = stage.db.setup.ensure_org("other", at(0)).await.unwrap();
    let mark = format!("update orgs set deleting_at = now() where id = '{}'", stage.db.org.uuid());
    let mut app = PgConnection::connect(&stage.db.urls.app).await.unwrap();
    for org in [other, PLATFORM] {
        let enter = format!("begin; select set_config('trueup.org', '{}', true)", org.uuid());
        sqlx::raw_sql(AssertSqlSafe(enter)).execute(&mut app).await.unwrap();
        let done = sqlx::raw_sql(AssertSqlSafe(mark.clone())).execute(&mut app).await.unwrap();
        assert_eq!(done.rows_affected(), 0, "{org}");
        sqlx::raw_sql("rollback").execute(&mut app).await.unwrap();
    }
    let changeable: Vec<String> = stage
        .all(
            "select attname::text from pg_attribute where attrelid = 'orgs'::regclass and attnum > 0
             and has_column_privilege('trueup_app', attrelid, attnum, 'update')",
        )
        .await;
    assert_eq!(changeable, ["deleting_at"], "an org keeps its name");
}
