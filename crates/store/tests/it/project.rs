//! Deleting a project: accepted once together with its services, ordered after them, then verified.

use trueup_model::drift::DriftPolicy;
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
use trueup_testkit::report_batch::RecordReports as _;
use trueup_testkit::test_db::name;

use crate::stage::{PROJECT, Stage, at, gone, web};

impl Stage {
    async fn end_project(&self) -> Accepted<ProjectRow> {
        let app = &self.db.app;
        app.delete_project(self.db.org, PROJECT, &self.context(), at(3)).await.unwrap()
    }

    /// Claims the due wakes and finishes them; returns their orders.
    async fn worked_on(&self, lease: Lease) -> Vec<Order> {
        let claimed = self.db.worker.claim_orders(lease, 10, at(9)).await.unwrap();
        for (wake, _) in &claimed {
            self.db.worker.finish_wakes(std::slice::from_ref(wake), at(9)).await.unwrap();
        }
        claimed.into_iter().map(|(_, order)| order).collect()
    }

    /// The services named in the order of a project that is being deleted.
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

/// The report of a pass that verified a project's absence.
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
async fn deleting_a_project_deletes_its_services_first_and_wakes_it_after_each() {
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
    assert_eq!(
        stage.find("api").await.unwrap().service.generation,
        2,
        "it was already being deleted"
    );
    let kinds = stage.events_of(ended.row.project.id.uuid()).await;
    assert_eq!(kinds, ["ProjectQueued", "ProjectDeleteQueued"]);

    assert_eq!(stage.tenants(lease, &ended.row).await, ["api", "web"]);
    let settled = stage.db.worker.record_reports(lease, &[gone(&row, 2)], at(9)).await.unwrap();
    assert_eq!(settled, 1);
    assert_eq!(
        stage.tenants(lease, &ended.row).await,
        ["api"],
        "the project is woken after each service"
    );
}

#[tokio::test]
async fn a_project_being_deleted_accepts_nothing_new() {
    let stage = Stage::new().await;
    let (app, org) = (&stage.db.app, stage.db.org);
    assert!(stage.end_project().await.changed);
    assert!(!stage.end_project().await.changed, "a repeated request changes nothing");
    assert!(is_refused(&stage.try_declare("web", &web("nginx:1"), None, 3).await));
    assert!(is_refused(
        &app.accept_project(org, &name(PROJECT), &DriftPolicy::default(), &stage.context(), at(3))
            .await
    ));
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
    worker.record_reports(lease, &[early], at(5)).await.unwrap();
    assert!(
        app.find_project(org, PROJECT).await.unwrap().is_some(),
        "the receipt was for another generation"
    );
    assert_eq!(worker.record_reports(lease, &[proof(&ended)], at(6)).await.unwrap(), 1);
    assert_eq!(worker.record_reports(lease, &[proof(&ended)], at(7)).await.unwrap(), 0, "once");

    assert_eq!(app.find_project(org, PROJECT).await.unwrap(), None);
    assert_eq!(app.list_projects(org).await.unwrap(), []);
    let id = ended.project.id.to_string();
    let row = app.find_project(org, &id).await.unwrap().unwrap();
    assert_eq!(row.status.phase, Phase::Deleted);
    assert_eq!(row.receipt, proof(&ended).receipt);
    let kinds = stage.events_of(ended.project.id.uuid()).await;
    assert_eq!(kinds.last().map(String::as_str), Some("AbsenceVerified"), "{kinds:?}");

    // The name is free at once, with a new namespace, and the old project is not woken any more.
    let next = app
        .accept_project(org, &name(PROJECT), &DriftPolicy::default(), &stage.context(), at(8))
        .await
        .unwrap();
    assert!(next.changed && next.row.project.namespace != ended.project.namespace);
    sqlx::raw_sql("delete from wakes").execute(&stage.owner).await.unwrap();
    assert_eq!(worker.wake_all(stage.db.cluster, at(9)).await.unwrap(), 1);
    stage.declare("web", "nginx:1").await;
}

#[tokio::test]
async fn a_service_declared_during_project_deletion_is_refused_or_deleted() {
    let stage = Stage::new().await;
    let request = web("nginx:1");
    for round in 0..8 {
        let service = format!("web-{round}");
        let (declared, _) =
            tokio::join!(stage.try_declare(&service, &request, None, 3), stage.end_project());
        let living = "select count(*) from services where desired <> 'deleted'";
        assert_eq!(stage.one::<i64>(living).await, 0, "round {round}");
        assert!(declared.is_ok() || is_refused(&declared), "{declared:?}");
        let undo = "update projects set desired = 'active', deleting_at = null";
        sqlx::raw_sql(undo).execute(&stage.owner).await.unwrap();
    }
}

#[tokio::test]
async fn an_overdue_project_deletion_is_reported() {
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

/// The report after a forced deletion of a project whose namespace still exists.
fn forced(row: &ProjectRow, force: Force) -> Report {
    let key = ResourceKey::new(Kind::Namespace, "", &row.project.namespace);
    let left = Unproven { key, uid: Some("u-1".to_owned()), why: "it is still there".to_owned() };
    let proved = proof(row).receipt.expect("a receipt");
    let receipt =
        Receipt { unproven: vec![left], force: Some(force), level: ProofLevel::Forced, ..proved };
    Report { receipt: Some(receipt), ..proof(row) }
}

#[tokio::test]
async fn a_forced_project_deletion_frees_the_name_and_leftovers_become_findings() {
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
    let force = order.permit.force.clone().expect("the order should carry the forced deletion");
    assert_eq!(force.reason, "nobody runs it");
    let keys = "select count(*) from resources where subject_kind = 'project'";
    let recorded = stage.one::<i64>(keys).await;
    assert!(recorded > 0);

    // A late receipt for the generation before does not complete the deletion.
    worker.record_reports(lease, &[proof(&ended)], at(7)).await.unwrap();
    assert_eq!(
        stage.one::<i64>("select count(*) from receipts where subject_kind = 'project'").await,
        0
    );
    let candidate = OrphanCandidate {
        key: ResourceKey::new(Kind::Namespace, "", &ended.project.namespace),
        uid: "u-1".to_owned(),
        resource_version: "7".to_owned(),
        unit: Some(ended.project.id.to_string()),
        proved: true,
    };
    let swept = SweepResult { kind: Kind::Namespace, candidates: vec![candidate] };
    assert_eq!(
        worker.note_findings(lease, &swept, at(8)).await.unwrap(),
        0,
        "the deletion is not complete"
    );
    let report = forced(&accepted.row, force);
    assert_eq!(
        worker.record_reports(lease, std::slice::from_ref(&report), at(9)).await.unwrap(),
        1
    );
    assert_eq!(
        worker.record_reports(lease, std::slice::from_ref(&report), at(10)).await.unwrap(),
        0
    );

    let (app, org) = (&stage.db.app, stage.db.org);
    let id = ended.project.id.to_string();
    let row = app.find_project(org, &id).await.unwrap().unwrap();
    assert_eq!((row.receipt, row.status.phase), (report.receipt, Phase::Deleted));
    assert_eq!(stage.one::<i64>(keys).await, recorded, "recorded keys are kept");
    assert_eq!(
        worker.note_findings(lease, &swept, at(11)).await.unwrap(),
        1,
        "the leftover is found"
    );
    let kinds = stage.events_of(ended.project.id.uuid()).await;
    assert!(kinds.contains(&"ProjectForceQueued".to_owned()), "{kinds:?}");
    assert_eq!(kinds.last().map(String::as_str), Some("ProjectDeleteForced"), "{kinds:?}");
    assert!(!kinds.iter().any(|kind| kind == "AbsenceVerified"), "{kinds:?}");

    // The name is free, the namespace's name never, and a completed deletion cannot be forced.
    let next = app
        .accept_project(org, &name(PROJECT), &DriftPolicy::default(), &stage.context(), at(12))
        .await
        .unwrap();
    assert!(next.changed && next.row.project.namespace != ended.project.namespace);
    let taken = format!(
        "update projects set namespace = '{}' where id = '{}'",
        ended.project.namespace,
        next.row.project.id.uuid()
    );
    let taken = sqlx::raw_sql(sqlx::AssertSqlSafe(taken)).execute(&stage.owner).await;
    assert!(taken.is_err(), "a namespace name belongs to one project forever");
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
    stage.db.worker.record_reports(lease, &[gone(&row, 2)], at(9)).await.unwrap();
    assert!(stage.force_project(PROJECT, 2).await.unwrap().changed);
}

#[tokio::test]
async fn a_survey_is_recorded_once_wakes_its_project_and_can_be_cleared() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let worker = &stage.db.worker;
    let row = stage.end_project().await.row;
    let survey = |second: i64| Survey { at: at(second), kinds: ["Secret".to_owned()].into() };
    let report = |survey: NamespaceSurvey| {
        let waits = Outcome::Waiting { on: "the survey to be recorded".to_owned() };
        Report { receipt: None, outcome: waits, survey: Some(survey), ..proof(&row) }
    };
    let ordered = async || {
        let orders = stage.worked_on(lease).await;
        let order = orders.into_iter().find(|order| order.unit == Unit::Project(row.project.id));
        order.map(|order| order.permit.survey)
    };
    assert_eq!(ordered().await, Some(None), "no survey yet");
    for (survey, woken) in [
        (NamespaceSurvey::Clear(survey(4)), Some(Some(survey(4)))),
        // Resent after a lost answer, or by a pass that had no new order yet.
        (NamespaceSurvey::Clear(survey(4)), None),
        (NamespaceSurvey::Clear(survey(5)), None),
        (NamespaceSurvey::Kept, Some(None)),
        (NamespaceSurvey::Kept, None),
        (NamespaceSurvey::Clear(survey(6)), Some(Some(survey(6)))),
    ] {
        worker.record_reports(lease, &[report(survey.clone())], at(6)).await.unwrap();
        assert_eq!(ordered().await, woken, "{survey:?}");
    }
    // A deleted project needs no survey, and an active one is never surveyed.
    worker.record_reports(lease, &[proof(&row)], at(7)).await.unwrap();
    worker.record_reports(lease, &[report(NamespaceSurvey::Kept)], at(8)).await.unwrap();
    assert_eq!(ordered().await, None);
    let next = app_project(&stage).await;
    let early = Report {
        unit: Unit::Project(next.project.id),
        generation: 1,
        ..report(NamespaceSurvey::Clear(survey(9)))
    };
    worker.record_reports(lease, &[early], at(9)).await.unwrap();
    let surveys = "select count(*) from projects where survey is not null and desired = 'active'";
    assert_eq!(stage.one::<i64>(surveys).await, 0);
}

async fn app_project(stage: &Stage) -> ProjectRow {
    let (app, org) = (&stage.db.app, stage.db.org);
    app.accept_project(org, &name(PROJECT), &DriftPolicy::default(), &stage.context(), at(8))
        .await
        .unwrap()
        .row
}
