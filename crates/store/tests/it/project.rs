//! The end of a project: promised once with that of its services, ordered after them, proved at last.

use trueup_model::order::{Order, Unit};
use trueup_model::receipt::{Reading, Receipt};
use trueup_model::report::{Outcome, Report};
use trueup_model::service::DesiredState;
use trueup_model::status::Phase;
use trueup_model::variable::VariableName;
use trueup_rules::admit::Refused;
use trueup_store::door::{Accepted, EntryAsk, Refusal};
use trueup_store::{Lease, ProjectRow};
use trueup_testkit::test_db::name;

use crate::stage::{PROJECT, Stage, at, gone, web};

impl Stage {
    async fn end_project(&self) -> Accepted<ProjectRow> {
        let app = &self.db.app;
        app.delete_project(self.db.org, PROJECT, &self.asker(), at(3)).await.unwrap()
    }

    /// What is due is ordered and done with.
    async fn worked_on(&self, lease: Lease) -> Vec<Order> {
        let claimed = self.db.worker.claim_orders(lease, 10, at(9)).await.unwrap();
        for (wake, _) in &claimed {
            self.db.worker.finish_wake(wake, at(9)).await.unwrap();
        }
        claimed.into_iter().map(|(_, order)| order).collect()
    }

    /// Which services the order of a project that ends names.
    async fn tenants(&self, lease: Lease, row: &ProjectRow) -> Vec<String> {
        let unit = Unit::Project(row.project.id);
        let orders = self.worked_on(lease).await;
        let order = orders.iter().find(|order| order.unit == unit);
        let order = order.expect("the project should be woken");
        assert_eq!(order.desired, DesiredState::Deleted);
        order.warrant.tenants.iter().cloned().collect()
    }
}

fn is_refused<T: std::fmt::Debug>(answer: &Result<T, Refusal>) -> bool {
    matches!(answer, Err(Refusal::Refused(Refused::BeingDeleted)))
}

/// What an executor reports of a project that is gone.
pub(crate) fn proof(row: &ProjectRow) -> Report {
    let reading = Reading { began_at: at(4), ended_at: at(5) };
    Report {
        unit: Unit::Project(row.project.id),
        org: row.project.org,
        generation: row.project.generation,
        observation: None,
        outcome: Outcome::Converged,
        changes: Vec::new(),
        receipt: Some(Receipt::of_absence(Vec::new(), "one", vec![reading])),
    }
}

#[tokio::test]
async fn a_project_ends_its_services_first_and_is_looked_at_after_the_last_of_them() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.declare("api", "nginx:1").await;
    stage.delete("api").await.unwrap();
    stage.worked_on(lease).await;
    let ended = stage.end_project().await;
    assert_eq!((ended.changed, ended.row.desired), (true, DesiredState::Deleted));
    assert_eq!(stage.find("web").await.unwrap().service.desired, DesiredState::Deleted);
    assert_eq!(stage.find("web").await.unwrap().service.generation, 2);
    assert_eq!(stage.find("api").await.unwrap().service.generation, 2, "it was going already");
    let told = stage.events_of(ended.row.project.id.uuid()).await;
    assert_eq!(told, ["ProjectQueued", "ProjectDeleteQueued"]);

    assert_eq!(stage.tenants(lease, &ended.row).await, ["api", "web"]);
    let settled = stage.db.worker.settle(lease, &[gone(&row, 2)], at(9)).await.unwrap();
    assert_eq!(settled, 1);
    assert_eq!(stage.tenants(lease, &ended.row).await, ["api"], "it is woken by the end of each");
}

#[tokio::test]
async fn nothing_new_comes_into_a_project_that_ends() {
    let stage = Stage::new().await;
    let (app, org) = (&stage.db.app, stage.db.org);
    assert!(stage.end_project().await.changed);
    assert!(!stage.end_project().await.changed, "asking again changes nothing");
    assert!(is_refused(&stage.ask("web", &web("nginx:1"), None, 3).await));
    assert!(is_refused(&app.accept_project(org, &name(PROJECT), &stage.asker(), at(3)).await));
    let variable: VariableName = "REGION".parse().unwrap();
    let entry = EntryAsk { project: PROJECT, service: None, name: &variable, if_version: None };
    let set = app.set_variable(org, &entry, "north", &stage.asker(), at(3)).await;
    assert!(is_refused(&set));
}

#[tokio::test]
async fn a_receipt_frees_the_name_and_stays_readable_by_id() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let (app, worker, org) = (&stage.db.app, &stage.db.worker, stage.db.org);
    let ended = stage.end_project().await.row;
    let early = Report { generation: 1, ..proof(&ended) };
    worker.settle(lease, &[early], at(5)).await.unwrap();
    assert!(app.find_project(org, PROJECT).await.unwrap().is_some(), "of another promise");
    assert_eq!(worker.settle(lease, &[proof(&ended)], at(6)).await.unwrap(), 1);
    assert_eq!(worker.settle(lease, &[proof(&ended)], at(7)).await.unwrap(), 0, "once");

    assert_eq!(app.find_project(org, PROJECT).await.unwrap(), None);
    assert_eq!(app.list_projects(org).await.unwrap(), []);
    let id = ended.project.id.to_string();
    let row = app.find_project(org, &id).await.unwrap().unwrap();
    assert_eq!(row.status.phase, Phase::Deleted);
    assert_eq!(row.receipt, proof(&ended).receipt);
    let told = stage.events_of(ended.project.id.uuid()).await;
    assert_eq!(told.last().map(String::as_str), Some("AbsenceVerified"), "{told:?}");

    // The name is free at once, for a namespace of another name, and nobody is woken for the old one.
    let next = app.accept_project(org, &name(PROJECT), &stage.asker(), at(8)).await.unwrap();
    assert!(next.changed && next.row.project.namespace != ended.project.namespace);
    sqlx::raw_sql("delete from wakes").execute(&stage.owner).await.unwrap();
    assert_eq!(worker.wake_all(stage.db.cluster, at(9)).await.unwrap(), 1);
    stage.declare("web", "nginx:1").await;
}

#[tokio::test]
async fn a_service_declared_while_its_project_ends_is_refused_or_ends_with_it() {
    let stage = Stage::new().await;
    let ask = web("nginx:1");
    for round in 0..8 {
        let service = format!("web-{round}");
        let (declared, _) = tokio::join!(stage.ask(&service, &ask, None, 3), stage.end_project());
        let living = "select count(*) from services where desired <> 'deleted'";
        assert_eq!(stage.one::<i64>(living).await, 0, "round {round}");
        assert!(declared.is_ok() || is_refused(&declared), "{declared:?}");
        let undo = "update projects set desired = 'active', deleting_at = null";
        sqlx::raw_sql(undo).execute(&stage.owner).await.unwrap();
    }
}

#[tokio::test]
async fn an_end_of_a_project_that_takes_long_is_counted() {
    let stage = Stage::new().await;
    let ended = stage.end_project().await.row;
    let (worker, cluster) = (&stage.db.worker, stage.db.cluster);
    assert_eq!(worker.overdue_deletes(cluster, at(3)).await.unwrap(), []);
    let overdue = worker.overdue_deletes(cluster, at(4)).await.unwrap();
    assert_eq!(overdue, [Unit::Project(ended.project.id)]);
}
