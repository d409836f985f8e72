//! The end of a project: promised once with that of its services, ordered after them, proved at last.

use trueup_model::finding::{OrphanCandidate, SweepResult};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Order, Unit};
use trueup_model::receipt::{Force, ProofLevel, Reading, Receipt, Unproven};
use trueup_model::report::{NamespaceSurvey, Outcome, Report};
use trueup_model::service::DesiredState;
use trueup_model::status::Phase;
use trueup_model::survey::Survey;
use trueup_model::variable::VariableName;
use trueup_rules::admit::Refused;
use trueup_store::door::{Accepted, EntryRequest, ProjectForce, Refusal};
use trueup_store::{Lease, ProjectRow};
use trueup_testkit::test_db::name;

use crate::stage::{PROJECT, Stage, at, gone, web};

impl Stage {
    async fn end_project(&self) -> Accepted<ProjectRow> {
        let app = &self.db.app;
        app.delete_project(self.db.org, PROJECT, &self.context(), at(3)).await.unwrap()
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
        order.permit.tenants.iter().cloned().collect()
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
        survey: None,
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
    assert!(is_refused(&app.accept_project(org, &name(PROJECT), &stage.context(), at(3)).await));
    let variable: VariableName = "REGION".parse().unwrap();
    let entry = EntryRequest { project: PROJECT, service: None, name: &variable, if_version: None };
    let set = app.set_variable(org, &entry, "north", &stage.context(), at(3)).await;
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
    let next = app.accept_project(org, &name(PROJECT), &stage.context(), at(8)).await.unwrap();
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

impl Stage {
    pub(crate) async fn force_project(
        &self,
        wanted: &str,
        generation: i64,
    ) -> Result<Accepted<ProjectRow>, Refusal> {
        let force = ProjectForce { project: wanted, reason: " nobody runs it ", generation };
        self.db.app.force_project(self.db.org, &force, &self.context(), at(6)).await
    }
}

/// What an executor says after the forced end of a project: its namespace is still there.
fn forced(row: &ProjectRow, force: Force) -> Report {
    let key = ResourceKey::new(Kind::Namespace, "", &row.project.namespace);
    let left = Unproven { key, uid: Some("u-1".to_owned()), why: "it is still there".to_owned() };
    let proved = proof(row).receipt.expect("a receipt");
    let receipt =
        Receipt { unproven: vec![left], force: Some(force), level: ProofLevel::Forced, ..proved };
    Report { receipt: Some(receipt), ..proof(row) }
}

#[tokio::test]
async fn a_forced_end_of_a_project_frees_its_name_and_what_is_left_can_be_found() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let worker = &stage.db.worker;
    stage.worked_on(lease).await;
    let ended = stage.end_project().await.row;
    let accepted = stage.force_project(PROJECT, 2).await.unwrap();
    assert_eq!((accepted.changed, accepted.row.project.generation), (true, 3));
    let again = stage.force_project(PROJECT, 3).await.unwrap();
    assert_eq!((again.changed, again.row.project.generation), (false, 3), "once");

    let unit = Unit::Project(ended.project.id);
    let orders = stage.worked_on(lease).await;
    let order = orders.iter().find(|order| order.unit == unit).expect("it should be woken");
    let force = order.permit.force.clone().expect("the order should say that it is forced");
    assert_eq!(force.reason, "nobody runs it");
    let keys = "select count(*) from resources where unit_kind = 'project'";
    let recorded = stage.one::<i64>(keys).await;
    assert!(recorded > 0);

    // The proof of the promise before it comes late: it is not the end.
    worker.settle(lease, &[proof(&ended)], at(7)).await.unwrap();
    assert_eq!(stage.one::<i64>("select count(*) from project_receipts").await, 0);
    let candidate = OrphanCandidate {
        key: ResourceKey::new(Kind::Namespace, "", &ended.project.namespace),
        uid: "u-1".to_owned(),
        resource_version: "7".to_owned(),
        unit: Some(ended.project.id.to_string()),
        proved: true,
    };
    let swept = SweepResult { kind: Kind::Namespace, candidates: vec![candidate] };
    assert_eq!(worker.note_findings(lease, &swept, at(8)).await.unwrap(), 0, "on its way");
    let report = forced(&accepted.row, force);
    assert_eq!(worker.settle(lease, std::slice::from_ref(&report), at(9)).await.unwrap(), 1);
    assert_eq!(worker.settle(lease, std::slice::from_ref(&report), at(10)).await.unwrap(), 0);

    let (app, org) = (&stage.db.app, stage.db.org);
    let id = ended.project.id.to_string();
    let row = app.find_project(org, &id).await.unwrap().unwrap();
    assert_eq!((row.receipt, row.status.phase), (report.receipt, Phase::Deleted));
    assert_eq!(stage.one::<i64>(keys).await, recorded, "what is left stays known");
    assert_eq!(worker.note_findings(lease, &swept, at(11)).await.unwrap(), 1, "it is found");
    let told = stage.events_of(ended.project.id.uuid()).await;
    assert!(told.contains(&"ProjectForceQueued".to_owned()), "{told:?}");
    assert_eq!(told.last().map(String::as_str), Some("ProjectDeleteForced"), "{told:?}");
    assert!(!told.iter().any(|kind| kind == "AbsenceVerified"), "{told:?}");

    // The name is free, the namespace's never again, and what is gone cannot end again.
    let next = app.accept_project(org, &name(PROJECT), &stage.context(), at(12)).await.unwrap();
    assert!(next.changed && next.row.project.namespace != ended.project.namespace);
    let taken = format!(
        "update projects set namespace = '{}' where id = '{}'",
        ended.project.namespace,
        next.row.project.id.uuid()
    );
    let taken = sqlx::raw_sql(sqlx::AssertSqlSafe(taken)).execute(&stage.owner).await;
    assert!(taken.is_err(), "a namespace has one project, for ever");
    assert!(!stage.force_project(&id, 3).await.unwrap().changed);
    sqlx::raw_sql("delete from wakes").execute(&stage.owner).await.unwrap();
    assert_eq!(worker.wake_all(stage.db.cluster, at(13)).await.unwrap(), 1, "only the new one");
}

#[tokio::test]
async fn a_project_is_not_forced_before_its_services() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let lives = stage.force_project(PROJECT, 1).await;
    assert!(matches!(lives, Err(Refusal::Refused(Refused::Invalid(_)))), "{lives:?}");
    stage.end_project().await;
    let early = stage.force_project(PROJECT, 2).await;
    assert!(matches!(early, Err(Refusal::Refused(Refused::Invalid(_)))), "{early:?}");
    let stale = stage.force_project(PROJECT, 1).await;
    assert!(matches!(stale, Err(Refusal::Changed { current: 2 })), "{stale:?}");
    stage.db.worker.settle(lease, &[gone(&row, 2)], at(9)).await.unwrap();
    assert!(stage.force_project(PROJECT, 2).await.unwrap().changed);
}

#[tokio::test]
async fn a_look_goes_on_record_once_wakes_its_project_and_can_be_taken_back() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let worker = &stage.db.worker;
    let row = stage.end_project().await.row;
    let survey = |second: i64| Survey { at: at(second), kinds: ["Secret".to_owned()].into() };
    let report = |survey: NamespaceSurvey| {
        let waits = Outcome::Waiting { on: "the look to be on record".to_owned() };
        Report { receipt: None, outcome: waits, survey: Some(survey), ..proof(&row) }
    };
    let ordered = async || {
        let orders = stage.worked_on(lease).await;
        let order = orders.into_iter().find(|order| order.unit == Unit::Project(row.project.id));
        order.map(|order| order.permit.survey)
    };
    assert_eq!(ordered().await, Some(None), "nobody looked yet");
    for (look, woken) in [
        (NamespaceSurvey::Clear(survey(4)), Some(Some(survey(4)))),
        // Told again after an answer was lost, or by a pass that had no new order yet.
        (NamespaceSurvey::Clear(survey(4)), None),
        (NamespaceSurvey::Clear(survey(5)), None),
        (NamespaceSurvey::Kept, Some(None)),
        (NamespaceSurvey::Kept, None),
        (NamespaceSurvey::Clear(survey(6)), Some(Some(survey(6)))),
    ] {
        worker.settle(lease, &[report(look.clone())], at(6)).await.unwrap();
        assert_eq!(ordered().await, woken, "{look:?}");
    }
    // What is gone needs no look any more, and one that is to stay is never looked into.
    worker.settle(lease, &[proof(&row)], at(7)).await.unwrap();
    worker.settle(lease, &[report(NamespaceSurvey::Kept)], at(8)).await.unwrap();
    assert_eq!(ordered().await, None);
    let next = app_project(&stage).await;
    let early = Report {
        unit: Unit::Project(next.project.id),
        generation: 1,
        ..report(NamespaceSurvey::Clear(survey(9)))
    };
    worker.settle(lease, &[early], at(9)).await.unwrap();
    let looks = "select count(*) from projects where survey is not null and desired = 'active'";
    assert_eq!(stage.one::<i64>(looks).await, 0);
}

async fn app_project(stage: &Stage) -> ProjectRow {
    let (app, org) = (&stage.db.app, stage.db.org);
    app.accept_project(org, &name(PROJECT), &stage.context(), at(8)).await.unwrap().row
}
