//! The status of crons and jobs, from the status of their Kubernetes objects.

use serde_json::{Value, json};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::{Cause, Ended, PodProblem, PodSeen, Run, Runs, WorkloadSeen};
use trueup_model::order::{Body, Order, ServiceBody};
use trueup_model::report::Outcome;
use trueup_model::service::DesiredState;
use trueup_model::status::Health::{Degraded, Error, Healthy, Progressing};
use trueup_model::status::Phase::{Completed, Creating, Paused, Running, Updating};
use trueup_model::status::{Health, Inputs, Phase, Reason, Reconciliation};
use trueup_rules::render;
use trueup_rules::status::{project, reconciliation};

use crate::given::{self, at};
use crate::projection::{inputs, newer, troubled};
use crate::world::World;

fn run(repeats: bool, last: Run) -> WorkloadSeen {
    WorkloadSeen {
        current: true,
        runs: Some(Runs { repeats, last, job: None }),
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
    for (what, repeats, last, pods, phase, health) in rows {
        let mut given: Inputs = inputs(previous);
        given.desired = desired;
        given.observation.workload = Some(run(repeats, last));
        given.observation.pods = pods;
        let status = project(&given, at(9));
        assert_eq!((status.phase, status.health), (phase, health), "{what}");
    }
}

#[test]
fn a_crons_health_follows_its_last_run() {
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
fn a_job_is_running_then_completed_with_its_result() {
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
fn a_pause_waits_only_for_active_runs() {
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
fn a_failed_run_names_its_cause_and_diverges() {
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
fn a_new_spec_of_a_completed_job_is_an_update() {
    let mut given = inputs(Completed);
    newer(&mut given);
    given.observation.workload = Some(run(false, Run::Succeeded));
    let status = project(&given, at(9));
    assert_eq!((status.phase, status.health), (Updating, Progressing), "an old run proves nothing");
}

/// The Job of a world, with its uid.
fn job(world: &World) -> (ResourceKey, Value) {
    let mut jobs = world.server.objects.iter().filter(|(key, _)| key.kind == Kind::Job);
    let (key, job) = jobs.next().expect("a Job");
    assert_eq!(jobs.next(), None, "only one");
    (key.clone(), job["metadata"]["uid"].clone())
}

fn body(order: &mut Order) -> &mut ServiceBody {
    match &mut order.body {
        Body::Service(body) => body,
        Body::Project => unreachable!("a service"),
    }
}

/// A running gpu-job with this declared variable.
fn job_with_seed(seed: &str) -> World {
    let request = json!({"image": "train:1", "variables": {"SEED": seed}});
    let mut world = World::service(given::template("gpu-job"), request);
    assert_eq!(world.reconcile().outcome, Outcome::Converged);
    world
}

#[test]
fn a_variable_set_outside_the_manifest_starts_no_run() {
    let mut world = job_with_seed("1");
    let first = job(&world);
    for value in ["north", "south"] {
        // The order's spec has variables of the project, the declared spec has not.
        body(&mut world.order).spec.variables.insert("REGION".to_owned(), value.to_owned());
        world.order.generation += 1;
        world.order = given::recorded(world.order.clone());
        assert_eq!(world.reconcile().outcome, Outcome::Converged);
        assert_eq!(job(&world), first);
        let mut objects = world.server.objects.iter();
        let (_, config) =
            objects.find(|(key, _)| key.name.ends_with("-config")).expect("variables");
        assert_eq!(config["data"], json!({"REGION": value, "SEED": "1"}), "for the next run");
    }
    assert_ne!(job(&job_with_seed("2")).0, first.0, "a declared variable is another run");
}

/// Earlier versions of Trueup named a Job by all of its variables.
#[test]
fn a_job_recorded_by_an_earlier_version_keeps_its_name() {
    let mut order = job_with_seed("1").order;
    order.recorded.clear();
    let job = |order: &Order| {
        let keys = render::keys(order);
        keys.into_iter().find(|key| key.kind == Kind::Job).expect("a Job")
    };
    let declared = job(&order);
    body(&mut order).spec.variables.insert("REGION".to_owned(), "north".to_owned());
    assert_eq!(job(&order), declared);
    let mut former = order.clone();
    let all = body(&mut former);
    all.declared_variables = all.spec.variables.clone();
    let former = job(&former);
    assert_ne!(former, declared);

    order.recorded.insert(former.clone(), Some("uid".to_owned()));
    assert_eq!(job(&order), former, "an upgrade starts no run");
    order.recorded.insert(declared.clone(), None);
    assert_eq!(job(&order), declared, "once there was another run, it has the new name");
}

/// The last run of a service whose workload has this status.
fn seen(template: &str, request: Value, status: Value) -> Run {
    workload(template, request, status).runs.expect("runs").last
}

fn workload(template: &str, request: Value, status: Value) -> WorkloadSeen {
    let mut world = World::service(given::template(template), request);
    world.reconcile();
    let key = world.server.objects.keys().find(|key| key.kind.is_workload()).cloned();
    world.server.edit(&key.expect("a workload"), |live| live["status"] = status);
    world.observation(true).workload.expect("a workload")
}

/// The names are those of Kubernetes; `simulated_cron` tests a real one.
#[test]
fn a_cron_names_the_job_of_its_last_run() {
    let due = "2030-01-01T00:01:00Z";
    let table = [
        (json!({}), None),
        (json!({"lastScheduleTime": due, "active": [{"name": "x"}]}), Some("x")),
        (json!({"lastScheduleTime": due}), Some("cron-00000004-31557601")),
    ];
    for (status, expected) in table {
        let request = json!({"image": "report:1", "schedule": "@hourly"});
        let runs = workload("cron", request, status.clone()).runs.expect("runs");
        assert_eq!(runs.job.as_deref(), expected, "{status}");
    }
}

#[test]
fn a_run_stopped_by_its_deadline_has_the_time_limit_cause() {
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
fn a_crons_timestamps_give_the_result_of_its_last_run() {
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
        let request = json!({"image": "report:1", "schedule": "@hourly"});
        assert_eq!(seen("cron", request, status.clone()), expected, "{status}");
    }
}

#[test]
fn a_jobs_conditions_give_the_state_of_its_run() {
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
        let request = json!({"image": "train:1"});
        assert_eq!(seen("gpu-job", request, status.clone()), expected, "{status}");
    }
}

#[test]
fn an_ended_pod_has_its_exit_code_as_detail() {
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
    assert_eq!(said(&pods[0]).as_deref(), Some("the program exited with code 3"));
    assert_eq!(said(&pods[1]).as_deref(), Some("low on memory"));
    assert_eq!((said(&pods[2]), said(&pods[3])), (None, None));
}
