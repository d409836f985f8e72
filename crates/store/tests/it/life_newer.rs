//! The part of the life of `life.rs` that schema 15 has no place for. The fixture of that version was
//! made without it.

use trueup_model::domain::Saw;
use trueup_model::report::{Look, Outcome, Report};
use trueup_model::survey::Survey;
use trueup_store::door::{DomainAsk, ProjectForce, ServiceAsk};
use trueup_store::{PlanEnd, Recognised};
use trueup_testkit::test_db::name;

use crate::plan_request::plan;
use crate::project::proof;
use crate::stage::{PROJECT, Stage, at, web};

/// Looks into DNS that saw nothing, and one that somebody asked for.
pub(crate) async fn looks(stage: &Stage) {
    let (app, worker, org) = (&stage.db.app, &stage.db.worker, stage.db.org);
    let due = worker.claim_looks(8, 8, &[], at(60)).await.unwrap();
    let look = due.iter().find(|look| look.org == org).unwrap();
    worker.note_look(look, Saw::OtherTexts, "one TXT record", at(61)).await.unwrap();
    let other = due.iter().find(|look| look.org != org).unwrap();
    assert!(worker.note_contested(other, at(61)).await.unwrap());
    let wanted =
        DomainAsk { project: PROJECT, service: "web", host: &look.host, if_generation: None };
    app.look_for_domain(org, &wanted, &stage.asker(), at(62)).await.unwrap();
}

/// Requests for a preview that were answered, failed, or hold no more; one waits.
pub(crate) async fn previews(stage: &Stage) {
    let (app, worker, org) = (&stage.db.app, &stage.db.worker, stage.db.org);
    let lease = stage.lease().await;
    let (web_name, ask) = (name("web"), web("nginx:9"));
    let mut ids = Vec::new();
    for _ in 0..4 {
        let wanted = ServiceAsk::declare(PROJECT, &web_name, &ask);
        let asked = app.request_plan(org, &wanted, &stage.asker(), at(70)).await.unwrap();
        ids.push(asked.row.id);
    }
    for id in &ids[..2] {
        worker.end_plan(lease, *id, &PlanEnd::Filled(plan()), at(71)).await.unwrap();
    }
    let broken = [(ids[1], "another spec.replicas now".to_owned())];
    worker.note_plans(lease, &ids[..1], &broken, at(72)).await.unwrap();
    let failed = PlanEnd::Failed("the cluster is frozen".to_owned());
    worker.end_plan(lease, ids[2], &failed, at(72)).await.unwrap();
    let waits = PlanEnd::Waits("the cluster does not answer".to_owned());
    worker.end_plan(lease, ids[3], &waits, at(72)).await.unwrap();
}

/// A project that goes, of which the namespace was found empty, and one that is given up.
pub(crate) async fn projects(stage: &Stage) {
    let (app, worker, org) = (&stage.db.app, &stage.db.worker, stage.db.org);
    for project in ["going", "stuck"] {
        app.accept_project(org, &name(project), &stage.asker(), at(80)).await.unwrap();
        let row = app.delete_project(org, project, &stage.asker(), at(81)).await.unwrap().row;
        let survey = Survey { at: at(82), kinds: ["Secret".to_owned()].into() };
        let report = Report {
            receipt: None,
            outcome: Outcome::Waiting { on: "the survey to be on record".to_owned() },
            look: Some(Look::Clear(survey)),
            ..proof(&row)
        };
        worker.settle(stage.lease().await, &[report], at(83)).await.unwrap();
    }
    let force = ProjectForce { project: "stuck", reason: "nobody runs it", generation: 2 };
    assert!(app.force_project(org, &force, &stage.asker(), at(84)).await.unwrap().changed);
}

/// The cluster that is known, which was replaced once.
pub(crate) async fn identity(stage: &Stage) {
    for (identity, replaced) in [("first", false), ("second", true)] {
        let cluster = stage.db.cluster;
        let known = stage.db.worker.recognise_cluster(cluster, identity, replaced, at(90)).await;
        assert_eq!(known.unwrap(), Recognised::Ours);
    }
}
