//! Executor behaviours for jobs and crons, and for every shipped template.

use futures::FutureExt;
use serde_json::{Map, Value, json};
use trueup_model::key::Kind;
use trueup_model::observation::{Run, Runs};
use trueup_model::order::Order;
use trueup_model::report::{ObjectChange, Report};
use trueup_model::service::DesiredState;
use trueup_model::spec::{Spec, Workload};
use trueup_model::template::Template;
use trueup_rules::admit::template::resolve;

use crate::executor::Check;
use crate::rig::{Rig, converged, healthy, key, run, with_receipt};

/// Every behaviour with its description.
pub(crate) fn checks() -> Vec<(&'static str, Check)> {
    vec![
        ("a job runs once", |rig| runs_once(rig).boxed()),
        ("a changed job runs again", |rig| runs_again(rig).boxed()),
        ("a deleted job leaves neither pods nor a volume", |rig| leaves_nothing(rig).boxed()),
        ("a cron waits for the clock and leaves nothing", |rig| waits_and_goes(rig).boxed()),
        ("web is accepted as shipped", |rig| is_accepted(rig, "web").boxed()),
        ("worker is accepted as shipped", |rig| is_accepted(rig, "worker").boxed()),
        ("cron is accepted as shipped", |rig| is_accepted(rig, "cron").boxed()),
        ("postgres is accepted as shipped", |rig| is_accepted(rig, "postgres").boxed()),
        ("redis is accepted as shipped", |rig| is_accepted(rig, "redis").boxed()),
        ("minecraft is accepted as shipped", |rig| is_accepted(rig, "minecraft").boxed()),
        ("job is accepted as shipped", |rig| is_accepted(rig, "job").boxed()),
        ("gpu-job is accepted as shipped", |rig| is_accepted(rig, "gpu-job").boxed()),
    ]
}

/// A job with a volume.
pub(crate) fn job(image: &str) -> Spec {
    run(&json!({"workload": "job", "image": image, "volume": {"size_gib": 1, "path": "/data"}}))
}

fn last_run(report: &Report) -> Option<&Run> {
    let runs: Option<&Runs> = report.observation.as_ref()?.workload.as_ref()?.runs.as_ref();
    runs.map(|runs| &runs.last)
}

/// The run succeeded, and its pod was seen to end, too; the two come from two watches.
pub(crate) fn complete(report: &Report) -> bool {
    let ended = |report: &Report| {
        let pods = report.observation.as_ref().map(|seen| seen.pods.as_slice());
        pods.is_some_and(|pods| pods.len() == 1 && pods[0].ended.is_some())
    };
    last_run(report) == Some(&Run::Succeeded) && ended(report)
}

async fn runs_once(mut rig: Rig) {
    rig.order_until(rig.project(), converged).await;
    let order = rig.service(1, job("train:1"));
    rig.order_until(order.clone(), complete).await;
    let job = order.recorded.keys().find(|key| key.kind == Kind::Job).expect("a job").clone();
    let uid = rig.get(&job).await.expect("the Job should be there")["metadata"]["uid"].clone();
    // Pausing and resuming are new generations, but no reason to run again.
    for (generation, desired) in [(2, DesiredState::Paused), (3, DesiredState::Active)] {
        let order = Order { desired, ..rig.service(generation, self::job("train:1")) };
        rig.order_until(order, |report| converged(report) && complete(report)).await;
        let live = rig.get(&job).await.expect("the Job should be there");
        assert_eq!(live["metadata"]["uid"], uid);
        assert_eq!(live["spec"]["suspend"], desired == DesiredState::Paused);
    }
}

async fn runs_again(mut rig: Rig) {
    rig.order_until(rig.project(), converged).await;
    let first = rig.service(1, job("train:1"));
    rig.order_until(first.clone(), complete).await;
    let second = Rig::after(&first, rig.service(2, job("train:2")));
    let report = rig.order_until(second.clone(), |report| {
        report.changes.iter().any(|change| matches!(change, ObjectChange::Created { .. }))
    });
    let report = report.await;
    let kinds: Vec<Kind> = report
        .changes
        .iter()
        .filter_map(|change| match change {
            ObjectChange::Created { key } | ObjectChange::Removed { key } => Some(key.kind),
            ObjectChange::Updated { .. }
            | ObjectChange::DeletedExternally { .. }
            | ObjectChange::ModifiedExternally { .. } => None,
        })
        .collect();
    assert!(kinds.ends_with(&[Kind::Job]), "{report:?}");
    rig.until(second.unit, complete).await;
    let old = first.recorded.keys().find(|key| key.kind == Kind::Job).expect("a job");
    assert_eq!(rig.get(old).await, None, "the run before should be gone");
}

async fn leaves_nothing(mut rig: Rig) {
    rig.order_until(rig.project(), converged).await;
    rig.order_until(rig.service(1, job("train:1")), complete).await;
    let gone = rig.gone(2, job("train:1"));
    let report = rig.order_until(gone.clone(), with_receipt).await;
    let receipt = report.receipt.expect("a receipt should be there");
    for kind in [Kind::Job, Kind::PersistentVolumeClaim] {
        let absence = receipt.absent.iter().find(|absence| absence.key.kind == kind);
        assert!(absence.is_some_and(|absence| absence.uid.is_some()), "{kind}: {receipt:#?}");
    }
    for key in gone.recorded.keys() {
        assert_eq!(rig.get(key).await, None, "{key}");
    }
}

async fn waits_and_goes(mut rig: Rig) {
    let spec = || run(&json!({"workload": "cron_job", "schedule": "0 0 1 1 *"}));
    rig.order_until(rig.project(), converged).await;
    let report = rig.order_until(rig.service(1, spec()), converged).await;
    assert_eq!(last_run(&report), Some(&Run::Waiting));
    let order = rig.service(1, spec());
    let cron = key(&order, Kind::CronJob, str::to_owned);
    let live = rig.get(&cron).await.expect("the CronJob should be there");
    assert_eq!(live["spec"]["concurrencyPolicy"], "Forbid");
    assert!(!order.recorded.keys().any(|key| key.kind == Kind::Service), "nothing listens");
    rig.order_until(rig.gone(2, spec()), with_receipt).await;
    assert_eq!(rig.get(&cron).await, None);
}

/// A shipped template with only the required parameters, in a namespace with `restricted` pod
/// security: pods start there only if they need no more than that.
async fn is_accepted(mut rig: Rig, name: &str) {
    let path = format!("{}/../../templates/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("a shipped template");
    let template: Template = serde_saphyr::from_str(&text).expect("a template");
    let needed: Map<String, Value> = template
        .parameters
        .iter()
        .filter(|(_, parameter)| parameter.default.is_none())
        .map(|(name, _)| {
            (name.clone(), json!(if name == "schedule" { "@yearly" } else { "example:1" }))
        })
        .collect();
    let spec = resolve(&template, &needed).expect("a spec");
    rig.order_until(rig.project(), converged).await;
    let wanted = match spec.workload {
        Workload::Deployment | Workload::StatefulSet => healthy,
        Workload::Job => complete,
        Workload::CronJob => converged,
    };
    let order = rig.service(1, spec);
    rig.order_until(order.clone(), wanted).await;
    if order.recorded.keys().any(|key| key.kind == Kind::CronJob) {
        run_now(&rig, &order).await;
    }
    // The server changed nothing that looks like drift.
    let passed = rig.executor.order(order).await.await;
    assert_eq!(passed, Ok(trueup_model::report::Outcome::Converged));
}

/// Starts a run of a cron as its controller does, without waiting for the schedule.
async fn run_now(rig: &Rig, order: &Order) {
    let cron = rig.get(&key(order, Kind::CronJob, str::to_owned)).await.expect("a CronJob");
    let run = key(order, Kind::Job, |name| format!("{name}-now"));
    let template = &cron["spec"]["jobTemplate"];
    let object = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": run.name, "labels": template["metadata"]["labels"]},
        "spec": template["spec"],
    });
    rig.cluster.apply(&run, &object).await.expect("the run should be accepted");
    rig.get_until(&run, |found| {
        let conditions = found.and_then(|job| job["status"]["conditions"].as_array());
        conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Complete"))
    })
    .await;
}
