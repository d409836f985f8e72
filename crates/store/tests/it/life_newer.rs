//! The part of the life of `life.rs` that schema 15 has no place for. The fixture of that version was
//! made without it.

use trueup_model::domain::DnsResult;
use trueup_model::report::{NamespaceSurvey, Outcome, Report};
use trueup_model::survey::Survey;
use trueup_store::door::{DomainRequest, ProjectForce, ServiceRequest};
use trueup_store::{PreviewResult, Recognised};
use trueup_testkit::test_db::name;

use crate::preview_request::plan;
use crate::project::proof;
use crate::stage::{PROJECT, Stage, at, web};

/// Looks into DNS that saw nothing, and one that somebody asked for.
pub(crate) async fn checks(stage: &Stage) {
    let (app, worker, org) = (&stage.db.app, &stage.db.worker, stage.db.org);
    let due = worker.claim_dns_checks(8, 8, &[], at(60)).await.unwrap();
    let look = due.iter().find(|look| look.org == org).unwrap();
    worker.record_dns_check(look, DnsResult::OtherTexts, "one TXT record", at(61)).await.unwrap();
    let other = due.iter().find(|look| look.org != org).unwrap();
    assert!(worker.note_contested(other, at(61)).await.unwrap());
    let wanted =
        DomainRequest { project: PROJECT, service: "web", host: &look.host, if_generation: None };
    app.request_domain_check(org, &wanted, &stage.context(), at(62)).await.unwrap();
}

/// Requests for a preview that were answered, failed, or hold no more; one waits.
pub(crate) async fn previews(stage: &Stage) {
    let (app, worker, org) = (&stage.db.app, &stage.db.worker, stage.db.org);
    let lease = stage.lease().await;
    let (web_name, ask) = (name("web"), web("nginx:9"));
    let mut ids = Vec::new();
    for _ in 0..4 {
        let wanted = ServiceRequest::declare(PROJECT, &web_name, &ask);
        let asked = app.request_plan(org, &wanted, &stage.context(), at(70)).await.unwrap();
        ids.push(asked.row.id);
    }
    for id in &ids[..2] {
        worker.end_plan(lease, *id, &PreviewResult::Filled(plan()), at(71)).await.unwrap();
    }
    let broken = [(ids[1], "another spec.replicas now".to_owned())];
    worker.note_plans(lease, &ids[..1], &broken, at(72)).await.unwrap();
    let failed = PreviewResult::Failed("the cluster is frozen".to_owned());
    worker.end_plan(lease, ids[2], &failed, at(72)).await.unwrap();
    let waits = PreviewResult::Waits("the cluster does not answer".to_owned());
    worker.end_plan(lease, ids[3], &waits, at(72)).await.unwrap();
}

/// A project that goes, of which the namespace was found empty, and one that is given up.
pub(crate) async fn projects(stage: &Stage) {
    let (app, worker, org) = (&stage.db.app, &stage.db.worker, stage.db.org);
    for project in ["going", "stuck"] {
        app.accept_project(org, &name(project), &stage.context(), at(80)).await.unwrap();
        let row = app.delete_project(org, project, &stage.context(), at(81)).await.unwrap().row;
        let survey = Survey { at: at(82), kinds: ["Secret".to_owned()].into() };
        let report = Report {
            receipt: None,
            outcome: Outcome::Waiting { on: "the survey to be on record".to_owned() },
            survey: Some(NamespaceSurvey::Clear(survey)),
            ..proof(&row)
        };
        worker.settle(stage.lease().await, &[report], at(83)).await.unwrap();
    }
    let force = ProjectForce { project: "stuck", reason: "nobody runs it", generation: 2 };
    assert!(app.force_project(org, &force, &stage.context(), at(84)).await.unwrap().changed);
}

/// The cluster that is known, which was replaced once.
pub(crate) async fn identity(stage: &Stage) {
    for (identity, replaced) in [("first", false), ("second", true)] {
        let cluster = stage.db.cluster;
        let known = stage.db.worker.recognise_cluster(cluster, identity, replaced, at(90)).await;
        assert_eq!(known.unwrap(), Recognised::Ours);
    }
}
