//! What people see of a cron and of a job, and what Kubernetes' words for their runs mean.

use serde_json::{Value, json};
use trueup_model::observation::{Cause, Ended, PodProblem, PodSeen, Run, Runs, WorkloadSeen};
use trueup_model::service::DesiredState;
use trueup_model::status::Health::{Degraded, Error, Healthy, Progressing};
use trueup_model::status::Phase::{Completed, Creating, Paused, Running, Updating};
use trueup_model::status::{Health, Inputs, Phase, Reason, Reconciliation};
use trueup_rules::status::{project, reconciliation};

use crate::given::{self, at};
use crate::projection::{inputs, newer, troubled};
use crate::world::World;

fn run(idempotency_keys: bool, last: Run) -> WorkloadSeen {
    WorkloadSeen {
        current: true,
        runs: Some(Runs { idempotency_keys, last, job: None }),
        ..WorkloadSeen::default()
    }
}

fn failed() -> Run {
    Run::Failed { why: "no luck".to_owned() }
}

fn ended(how: Ended) -> PodSeen {
    let problem = PodProblem { cause: Cause::Exited, detail: "exit code 1".to_owned() };
    PodSeen {
        ended: Some(how),
        problem: (how == Ended::Badly).then_some(problem),
        ..troubled(Cause::Exited, "")
    }
}

type Row = (&'static str, bool, Run, Vec<PodSeen>, Phase, Health);

fn check(previous: Phase, desired: DesiredState, rows: Vec<Row>) {
    for (what, idempotency_keys, last, pods, phase, health) in rows {
        let mut given: Inputs = inputs(previous);
        given.desired = desired;
        given.observation.workload = Some(run(idempotency_keys, last));
        given.observation.pods = pods;
        let status = project(&given, at(9));
        assert_eq!((status.phase, status.health), (phase, health), "{what}");
    }
}

#[test]
fn a_cron_is_judged_by_its_last_run() {
    let stuck = || vec![troubled(Cause::ImagePull, "not found")];
    check(
        Creating,
        DesiredState::Active,
        vec![
            ("none yet", true, Run::Waiting, vec![], Running, Healthy),
            ("under way", true, Run::Active, vec![], Running, Healthy),
            ("cannot start", true, Run::Active, stuck(), Running, Degraded),
            ("ended well", true, Run::Succeeded, vec![ended(Ended::Well)], Running, Healthy),
            (
                "an older one failed",
                true,
                Run::Succeeded,
                vec![ended(Ended::Badly)],
                Running,
                Healthy,
            ),
            ("failed", true, failed(), vec![ended(Ended::Badly)], Running, Degraded),
        ],
    );
}

#[test]
fn a_job_runs_and_then_is_completed_well_or_not() {
    let stuck = || vec![troubled(Cause::Unschedulable, "no GPUs")];
    check(
        Creating,
        DesiredState::Active,
        vec![
            ("under way", false, Run::Active, vec![], Running, Progressing),
            ("a try failed", false, Run::Active, vec![ended(Ended::Badly)], Running, Progressing),
            ("cannot start", false, Run::Active, stuck(), Running, Error),
            ("ended well", false, Run::Succeeded, vec![ended(Ended::Well)], Completed, Healthy),
            ("second try", false, Run::Succeeded, vec![ended(Ended::Badly)], Completed, Healthy),
            ("failed", false, failed(), vec![ended(Ended::Badly)], Completed, Error),
        ],
    );
}

#[test]
fn a_pause_waits_for_a_run_and_not_for_what_has_ended() {
    let running = || vec![PodSeen { ready: true, problem: None, ..troubled(Cause::Exited, "") }];
    check(
        Running,
        DesiredState::Paused,
        vec![
            ("a cron under way", true, Run::Active, running(), Updating, Progressing),
            ("a cron at rest", true, Run::Succeeded, vec![ended(Ended::Well)], Paused, Healthy),
            ("a cron that failed", true, failed(), vec![ended(Ended::Badly)], Paused, Healthy),
            ("a job under way", false, Run::Active, running(), Updating, Progressing),
            ("a job held back, pod left", false, Run::Waiting, running(), Updating, Progressing),
            ("a job held back", false, Run::Waiting, vec![], Paused, Healthy),
            ("a job that ended", false, Run::Succeeded, vec![ended(Ended::Well)], Paused, Healthy),
        ],
    );
}

#[test]
fn a_failure_names_its_cause_and_is_no_settled_end() {
    let mut given = inputs(Running);
    given.observation.workload = Some(run(false, failed()));
    given.observation.pods = vec![ended(Ended::Badly)];
    let status = project(&given, at(9));
    assert_eq!(status.conditions.len(), 1);
    assert_eq!(status.conditions[0].reason, Reason::RunFailed);
    let message = &status.conditions[0].message;
    assert!(message.starts_with("no luck; pod web-0: exit code 1"), "{message}");
    assert_eq!(reconciliation(&status, 1, false), Reconciliation::Diverged);

    given.observation.workload = Some(run(false, Run::Succeeded));
    let status = project(&given, at(9));
    assert_eq!(status.conditions, []);
    assert_eq!(reconciliation(&status, 1, false), Reconciliation::Settled);
    assert_eq!(reconciliation(&status, 2, false), Reconciliation::Pending);
}

#[test]
fn a_new_ask_of_a_completed_job_is_an_update() {
    let mut given = inputs(Completed);
    newer(&mut given);
    given.observation.workload = Some(run(false, Run::Succeeded));
    let status = project(&given, at(9));
    assert_eq!((status.phase, status.health), (Updating, Progressing), "an old run proves nothing");
}

/// What is seen of the last run of a service whose workload has this status.
fn seen(template: &str, asked: Value, status: Value) -> Run {
    workload(template, asked, status).runs.expect("runs").last
}

fn workload(template: &str, asked: Value, status: Value) -> WorkloadSeen {
    let mut world = World::service(given::template(template), asked);
    world.reconcile();
    let key = world.server.objects.keys().find(|key| key.kind.is_workload()).cloned();
    world.server.edit(&key.expect("a workload"), |live| live["status"] = status);
    world.observation(true).workload.expect("a workload")
}

/// The names are those that Kubernetes gives; `simulated_cron` asks a real one.
#[test]
fn a_cron_names_the_job_of_its_last_run() {
    let due = "2030-01-01T00:01:00Z";
    let table = [
        (json!({}), None),
        (json!({"lastScheduleTime": due, "active": [{"name": "x"}]}), Some("x")),
        (json!({"lastScheduleTime": due}), Some("cron-00000004-31557601")),
    ];
    for (status, expected) in table {
        let asked = json!({"image": "report:1", "schedule": "@hourly"});
        let runs = workload("cron", asked, status.clone()).runs.expect("runs");
        assert_eq!(runs.job.as_deref(), expected, "{status}");
    }
}

#[test]
fn a_run_that_was_stopped_for_its_time_says_so() {
    let late = json!({"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded",
        "message": "Job was active longer than specified deadline"}]});
    let mut given = inputs(Running);
    given.observation.workload = Some(workload("gpu-job", json!({"image": "train:1"}), late));
    let status = project(&given, at(9));
    assert_eq!((status.phase, status.health), (Completed, Error));
    let condition = &status.conditions[0];
    assert_eq!(condition.cause.as_ref().map(|seen| seen.cause), Some(Cause::TimeLimit));
    assert_eq!(
        condition.message,
        format!(
            "the run was stopped; Job was active longer than specified deadline; {}",
            Cause::TimeLimit.advice()
        )
    );
}

#[test]
fn a_crons_times_say_how_its_last_run_ended() {
    let early = "2030-01-01T00:00:00Z";
    let late = "2030-01-01T01:00:00Z";
    let failed = Run::Failed { why: format!("the run of {late} did not succeed") };
    let table = [
        (json!({}), Run::Waiting),
        (json!({"lastScheduleTime": early, "active": [{"name": "x"}]}), Run::Active),
        (json!({"lastScheduleTime": early, "lastSuccessfulTime": late}), Run::Succeeded),
        (json!({"lastScheduleTime": early, "lastSuccessfulTime": early}), Run::Succeeded),
        (json!({"lastScheduleTime": late, "lastSuccessfulTime": early}), failed.clone()),
        (json!({"lastScheduleTime": late, "active": []}), failed),
        (json!({"lastSuccessfulTime": late}), Run::Succeeded),
    ];
    for (status, expected) in table {
        let asked = json!({"image": "report:1", "schedule": "@hourly"});
        assert_eq!(seen("cron", asked, status.clone()), expected, "{status}");
    }
}

#[test]
fn a_jobs_conditions_say_how_its_run_stands() {
    let condition = |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status, "message": "said"}]});
    let table = [
        (json!({}), Run::Active),
        (json!({"active": 1}), Run::Active),
        (condition("SuccessCriteriaMet", "True"), Run::Active),
        (condition("Complete", "True"), Run::Succeeded),
        (condition("Failed", "True"), Run::Failed { why: "said".to_owned() }),
        (condition("Suspended", "True"), Run::Waiting),
        (condition("Suspended", "False"), Run::Active),
    ];
    for (status, expected) in table {
        let asked = json!({"image": "train:1"});
        assert_eq!(seen("gpu-job", asked, status.clone()), expected, "{status}");
    }
}

#[test]
fn a_pod_that_ended_says_how() {
    let mut world = World::service(given::template("gpu-job"), json!({"image": "train:1"}));
    world.reconcile();
    let pod = |status: Value| json!({"metadata": {"name": "p", "uid": "u"}, "status": status});
    let code = json!({"state": {"terminated": {"exitCode": 3}}});
    world.server.pods = vec![
        pod(json!({"phase": "Failed", "containerStatuses": [code]})),
        pod(json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"})),
        pod(json!({"phase": "Succeeded"})),
        pod(json!({"phase": "Running"})),
    ];
    let pods = world.observation(true).pods;
    let ended: Vec<Option<Ended>> = pods.iter().map(|pod| pod.ended).collect();
    assert_eq!(ended, [Some(Ended::Badly), Some(Ended::Badly), Some(Ended::Well), None]);
    let said = |pod: &PodSeen| pod.problem.as_ref().map(|problem| problem.detail.clone());
    assert_eq!(said(&pods[0]).as_deref(), Some("its program ended with exit code 3"));
    assert_eq!(said(&pods[1]).as_deref(), Some("low on memory"));
    assert_eq!((said(&pods[2]), said(&pods[3])), (None, None));
}
