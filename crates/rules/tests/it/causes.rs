//! Every external cause, from the messages of Kubernetes to the status shown to users.

use serde_json::{Value, json};
use trueup_model::key::Kind;
use trueup_model::observation::{Cause, Ended, PodSeen, Run, Runs, WorkloadSeen};
use trueup_model::status::Health;
use trueup_model::status::Phase::{Creating, Running};
use trueup_rules::status::observe::{
    Answers, explain, overdue_run, overdue_since, owed_run, unexplained,
};
use trueup_rules::status::project;

use crate::given::{self, at};
use crate::projection::{inputs, pods, seen, troubled};
use crate::world::World;

fn running() -> World {
    let mut world = World::service(given::template("web"), json!({"image": "a", "replicas": 2}));
    world.reconcile();
    world.server.catch_up();
    world
}

/// The cause that is read from a pod on this node, with its detail.
fn cause(pod: &Value, node: Option<&Value>) -> Option<(Cause, String)> {
    let mut world = running();
    world.server.pods = vec![pod.clone()];
    world.server.nodes.insert("other".to_owned(), json!({}));
    if let Some(node) = node {
        world.server.nodes.insert("n1".to_owned(), node.clone());
    }
    let problem = world.observation(true).pods.remove(0).problem?;
    Some((problem.cause, problem.detail))
}

fn pod(status: &Value) -> Value {
    let probe = json!({ "httpGet": { "path": "/" } });
    json!({
        "metadata": { "name": "web-0", "uid": "u" },
        "spec": { "nodeName": "n1", "initContainers": [{ "name": "first" }], "containers": [
            { "name": "app", "livenessProbe": probe, "readinessProbe": probe, "startupProbe": probe } ] },
        "status": status,
    })
}

fn ready_node(ready: &str) -> Value {
    json!({ "status": { "conditions": [{ "type": "Ready", "status": ready,
        "message": "Kubelet stopped posting node status.", "lastTransitionTime": "2026-01-01T00:00:00Z" }] } })
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({ "phase": "Pending", "containerStatuses": [{ "name": "app",
        "state": { "waiting": { "reason": reason, "message": message } } }] })
}

fn crashed(code: i64, reason: &str) -> Value {
    json!({ "phase": "Running", "containerStatuses": [{ "name": "app", "restartCount": 3,
        "state": { "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 40s" } },
        "lastState": { "terminated": { "exitCode": code, "reason": reason } } }] })
}

fn unscheduled(message: &str) -> Value {
    json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": message }] })
}

fn table() -> Vec<(&'static str, Value)> {
    let nodes = |what: &str| {
        format!("0/4 nodes are available: {what}. preemption: 0/4 nodes are available.")
    };
    let disrupted = |reason: &str| {
        json!({ "phase": "Running", "conditions": [
        { "type": "DisruptionTarget", "status": "True", "reason": reason, "message": "it says so" }] })
    };
    let up = |started: bool, restarts: u32| {
        json!({ "phase": "Running", "containerStatuses": [{ "name": "app",
        "ready": false, "started": started, "restartCount": restarts, "state": { "running": {} } }] })
    };
    vec![
        ("image name", waiting("InvalidImageName", "couldn't parse image name \"A B\"")),
        ("image missing", waiting("ErrImagePull", "docker.io/library/nope:1: not found")),
        (
            "image of others",
            waiting(
                "ImagePullBackOff",
                "pull access denied, repository does not exist or may require authorization",
            ),
        ),
        ("image unauthorized", waiting("ErrImagePull", "unexpected status: 401 Unauthorized")),
        (
            "registry unreachable",
            waiting("ErrImagePull", "dial tcp: lookup registry: no such host"),
        ),
        ("config", waiting("CreateContainerConfigError", "secret \"a\" does not exist")),
        ("creating", waiting("ContainerCreating", "")),
        ("crash loop", crashed(1, "Error")),
        ("out of memory", crashed(137, "OOMKilled")),
        ("liveness", crashed(137, "Error")),
        ("startup", up(false, 0)),
        ("readiness", up(true, 0)),
        ("readiness after restarts", up(true, 2)),
        (
            "init",
            json!({ "phase": "Pending", "initContainerStatuses": [{ "name": "first", "restartCount": 1,
            "state": { "waiting": { "reason": "CrashLoopBackOff", "message": "back-off" } },
            "lastState": { "terminated": { "exitCode": 2 } } }],
            "containerStatuses": [{ "name": "app", "state": { "waiting": { "reason": "PodInitializing" } } }] }),
        ),
        ("cpu", unscheduled(&nodes("1 node(s) had untolerated taint {a: b}, 3 Insufficient cpu"))),
        ("memory", unscheduled(&nodes("4 Insufficient memory"))),
        (
            "gpu",
            unscheduled(&nodes(
                "3 node(s) didn't match Pod's node affinity/selector, 1 Insufficient nvidia.com/gpu",
            )),
        ),
        ("places", unscheduled(&nodes("4 Too many pods"))),
        ("taint", unscheduled(&nodes("4 node(s) had untolerated taint {a: b}"))),
        ("selector", unscheduled(&nodes("4 node(s) didn't match Pod's node affinity/selector"))),
        ("anti-affinity", unscheduled(&nodes("4 node(s) didn't match pod anti-affinity rules"))),
        ("disk", unscheduled(&nodes("pod has unbound immediate PersistentVolumeClaims"))),
        ("other", unscheduled("no nodes available to schedule pods")),
        ("drain", disrupted("EvictionByEvictionAPI")),
        ("taint manager", disrupted("DeletionByTaintManager")),
        ("preempted", disrupted("PreemptionByScheduler")),
        ("node shutdown", disrupted("TerminationByKubelet")),
        (
            "evicted",
            json!({ "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory." }),
        ),
        (
            "run failed",
            json!({ "phase": "Failed", "containerStatuses": [{ "name": "app", "state": { "terminated": { "exitCode": 3 } } }] }),
        ),
        (
            "run out of memory",
            json!({ "phase": "Failed", "containerStatuses": [{ "name": "app", "state": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } } }] }),
        ),
        ("succeeded", json!({ "phase": "Succeeded" })),
        (
            "well",
            json!({ "phase": "Running", "containerStatuses": [{ "name": "app", "ready": true, "state": { "running": {} } }] }),
        ),
    ]
}

#[test]
fn each_word_of_the_cluster_has_its_cause_and_its_advice() {
    let ready = ready_node("True");
    let mut text = String::new();
    for (name, status) in table() {
        let (cause, detail) = match cause(&pod(&status), Some(&ready)) {
            Some((cause, detail)) => {
                (format!("{cause:?}"), format!("{detail}; {}", cause.advice()))
            }
            None => ("-".to_owned(), String::new()),
        };
        text.push_str(&format!("{name}: {cause}\n    {detail}\n"));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_pod_on_an_unready_node_is_node_lost() {
    let well = pod(&table().pop().unwrap().1);
    assert_eq!(cause(&well, Some(&ready_node("True"))), None);
    for ready in ["False", "Unknown"] {
        let (cause, detail) = cause(&well, Some(&ready_node(ready))).unwrap();
        assert_eq!(cause, Cause::NodeLost);
        assert!(
            detail.starts_with("its node n1 is not ready since 2026-01-01T00:00:00Z: Kubelet"),
            "{detail}"
        );
    }
    assert_eq!(cause(&well, None).unwrap(), (Cause::NodeLost, "its node n1 is gone".to_owned()));
    // If nodes may not be read, an unknown node proves nothing.
    let mut world = running();
    world.server.pods = vec![well];
    assert_eq!(world.observation(true).pods.remove(0).problem, None);
}

#[test]
fn pods_on_a_node_labelled_simulated_are_simulated() {
    let well = pod(&table().pop().unwrap().1);
    let on = |labels: Value| {
        let mut world = running();
        world.server.pods = vec![well.clone()];
        let node =
            json!({ "metadata": { "labels": labels }, "status": ready_node("True")["status"] });
        world.server.nodes.insert("n1".to_owned(), node);
        world.observation(true).pods.remove(0).simulated
    };
    assert!(on(json!({ "trueup.dev/node-class": "simulated" })));
    assert!(!on(json!({ "trueup.dev/node-class": "real" })));
    assert!(!on(json!({})));
    let seed = format!("{}/../../local/kube/internal/seed/seed.go", env!("CARGO_MANIFEST_DIR"));
    let seed = std::fs::read_to_string(seed).unwrap();
    for word in [trueup_rules::render::names::NODE_CLASS, trueup_rules::render::names::SIMULATED] {
        assert!(seed.contains(&format!("\"{word}\"")), "local/kube should label its nodes with it");
    }
}

/// F35: the cluster accepts the Deployment but rejects its pods.
#[test]
fn f35_a_workload_without_pods_has_a_cause() {
    let stuck = |condition: Value| {
        let mut world = running();
        let key = world.server.objects.keys().find(|key| key.kind == Kind::Deployment).cloned();
        let live = world.server.objects.get_mut(&key.unwrap()).unwrap();
        live["status"]["conditions"] = json!([condition]);
        let stuck = world.observation(true).workload.unwrap().stuck;
        stuck.map(|problem| (problem.cause, problem.detail))
    };
    let failure = |message: &str| json!({ "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message });
    let quota = "pods \"web-1\" is forbidden: exceeded quota: most, requested: pods=1, used: pods=9, limited: pods=9";
    let policy = "pods \"web-1\" is forbidden: violates PodSecurity \"restricted:latest\"";
    assert_eq!(
        stuck(failure(quota)),
        Some((Cause::QuotaExceeded, format!("pods cannot be created: {quota}")))
    );
    assert_eq!(
        stuck(failure(policy)),
        Some((Cause::NotAdmitted, format!("pods cannot be created: {policy}")))
    );
    let late = json!({ "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "ReplicaSet \"w\" has timed out progressing." });
    assert_eq!(stuck(late).unwrap().0, Cause::SlowStart);
    assert_eq!(stuck(json!({ "type": "Progressing", "status": "True" })), None);
}

/// F35: a StatefulSet and a Job have no condition for this; only events explain it.
#[test]
fn f35_recent_events_of_one_object_explain_missing_pods() {
    let quota = "create Pod web-0 in StatefulSet web failed error: pods \"web-0\" is forbidden: exceeded quota: tight";
    let event = |reason: &str, message: &str, second: i64| json!({ "type": "Warning", "reason": reason, "message": message, "lastTimestamp": at(second).to_string() });
    let mut lacking = inputs(Creating).observation;
    lacking.workload = Some(WorkloadSeen { existing: 0, updated: 0, ..pods(0, 2) });
    let objects = unexplained(&lacking);
    assert_eq!(objects.len(), 1, "{objects:?}");
    assert_eq!((objects[0].kind, objects[0].uid.as_str()), (Kind::Deployment, "uid-5"));
    let cause_from = |events: &[Value]| {
        let mut seen = lacking.clone();
        seen.as_of = at(3600);
        explain(&mut seen, &objects[0], &Answers { events: events.to_vec(), run: None });
        seen.workload.unwrap().stuck.map(|problem| problem.cause)
    };
    assert_eq!(cause_from(&[]), None);
    assert_eq!(cause_from(&[event("FailedCreate", quota, 3000)]), Some(Cause::QuotaExceeded));
    assert_eq!(cause_from(&[event("FailedCreate", quota, 2000)]), None, "long ago");
    assert_eq!(
        cause_from(&[event("Unhealthy", "a probe failed", 3000)]),
        None,
        "the pod has the cause itself"
    );
    let both = [event("FailedCreate", quota, 3000), event("FailedCreate", "a webhook", 3100)];
    assert_eq!(cause_from(&both), Some(Cause::NotAdmitted), "the newest counts");

    // Events are read for an unready pod, but not if the cause is known.
    let mut mounting = lacking.clone();
    mounting.workload = Some(pods(0, 2));
    mounting.pods = vec![PodSeen { problem: None, ..troubled(Cause::Exited, "") }];
    mounting.as_of = at(60);
    let objects = unexplained(&mounting);
    assert_eq!((objects.len(), objects[0].kind), (1, Kind::Pod));
    let events = vec![event("FailedAttachVolume", "Multi-Attach error", 50)];
    explain(&mut mounting, &objects[0], &Answers { events, run: None });
    let problem = mounting.pods[0].problem.clone().unwrap();
    assert_eq!(
        (problem.cause, problem.detail.as_str()),
        (Cause::MountFailed, "Multi-Attach error")
    );
    assert_eq!(unexplained(&mounting), []);
    assert_eq!(unexplained(&inputs(Creating).observation), [], "all is well");
    lacking.applied = false;
    assert_eq!(unexplained(&lacking), [], "the generation is not applied yet");
}

/// The last run of a cron and its problem, with this Job and these events.
fn explained_run(last: Run, job: &Value, events: Vec<Value>) -> (Run, Option<(Cause, String)>) {
    let mut cron = inputs(Creating).observation;
    cron.as_of = at(60);
    let runs = Some(Runs { repeats: true, last, job: Some("web-5".to_owned()) });
    cron.workload = Some(WorkloadSeen { current: true, runs, ..WorkloadSeen::default() });
    let objects = unexplained(&cron);
    assert_eq!((objects.len(), objects[0].run.as_deref()), (1, Some("web-5")));
    explain(&mut cron, &objects[0], &Answers { events, run: Some(job.clone()) });
    let workload = cron.workload.expect("it should still be there");
    let stuck = workload.stuck.map(|problem| (problem.cause, problem.detail));
    (workload.runs.expect("runs").last, stuck)
}

#[test]
fn the_job_of_a_crons_last_run_explains_its_failure() {
    let job = |owner: &str, conditions: Value| {
        json!({
            "metadata": { "name": "web-5", "ownerReferences": [{ "uid": owner, "controller": true }] },
            "status": { "conditions": conditions },
        })
    };
    let ended = |reason: &str, message: &str| json!([{ "type": "Failed", "status": "True", "reason": reason, "message": message }]);
    let failed = || Run::Failed { why: "the run of noon did not succeed".to_owned() };
    let late = ended("DeadlineExceeded", "Job was active longer than specified deadline");
    let (_, stuck) = explained_run(failed(), &job("uid-5", late.clone()), Vec::new());
    assert_eq!(stuck.map(|(cause, _)| cause), Some(Cause::TimeLimit));

    let often = ended("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    let (last, stuck) = explained_run(failed(), &job("uid-5", often), Vec::new());
    let why = "the run of noon did not succeed: Job has reached the specified backoff limit";
    assert_eq!((last, stuck), (Run::Failed { why: why.to_owned() }, None));

    let quota = json!({ "reason": "FailedCreate", "message": "exceeded quota: tight", "lastTimestamp": at(50).to_string() });
    let (_, stuck) = explained_run(Run::Active, &job("uid-5", json!([])), vec![quota.clone()]);
    assert_eq!(stuck.map(|(cause, _)| cause), Some(Cause::QuotaExceeded));

    // A foreign Job, or one that is ahead of its cron, is ignored.
    for (owner, last, conditions) in
        [("else", failed(), late.clone()), ("uid-5", Run::Active, late)]
    {
        let explained = explained_run(last.clone(), &job(owner, conditions), vec![quota.clone()]);
        assert_eq!(explained, (last, None));
    }
}

#[test]
fn a_failed_run_with_a_pod_problem_needs_no_events() {
    let mut cron = inputs(Creating).observation;
    let last = Run::Failed { why: "no luck".to_owned() };
    let runs = Some(Runs { repeats: true, last, job: Some("web-5".to_owned()) });
    cron.workload = Some(WorkloadSeen { current: true, runs, ..WorkloadSeen::default() });
    cron.pods =
        vec![PodSeen { ended: Some(Ended::Badly), ..troubled(Cause::Exited, "exit code 1") }];
    assert_eq!(unexplained(&cron), []);
}

/// A cron that ran at noon, an hour after it was created.
fn cron_object() -> Value {
    json!({
        "metadata": { "name": "web", "creationTimestamp": "2026-01-01T11:00:00Z" },
        "spec": { "schedule": "*/15 * * * *", "suspend": false },
        "status": { "lastScheduleTime": "2026-01-01T12:00:00Z", "lastSuccessfulTime": "2026-01-01T12:01:00Z" },
    })
}

#[test]
fn a_cron_owes_the_first_run_after_its_last_one() {
    let with = |path: &str, value: Value| {
        let mut cron = cron_object();
        *cron.pointer_mut(path).expect("the field should be there") = value;
        owed_run(&cron).map(|due| due.to_string())
    };
    for (path, value, owed) in [
        ("/spec/suspend", json!(false), Some("2026-01-01T12:15:00Z")),
        ("/spec/schedule", json!("0 3 * * *"), Some("2026-01-02T03:00:00Z")),
        ("/status", json!({}), Some("2026-01-01T11:15:00Z")),
        ("/status/lastScheduleTime", json!("2026-01-01T12:07:00Z"), Some("2026-01-01T12:15:00Z")),
        ("/status", json!({ "active": [{ "name": "web-5" }] }), None),
        ("/spec/suspend", json!(true), None),
        ("/spec/schedule", json!("sometimes"), None),
    ] {
        assert_eq!(with(path, value.clone()).as_deref(), owed, "{path} = {value}");
    }
}

/// A quota or a webhook rejects the Job of a run: the cron's own status stays as it was.
#[test]
fn an_overdue_cron_is_explained_by_its_own_events() {
    let due = at(60);
    let mut cron = inputs(Running);
    let runs = Runs { repeats: true, last: Run::Succeeded, job: Some("web-5".to_owned()) };
    seen(&mut cron, WorkloadSeen { current: true, runs: Some(runs), ..WorkloadSeen::default() });
    for object in &mut cron.observation.objects {
        if object.key.kind.is_workload() {
            object.key.kind = Kind::CronJob;
        }
    }
    cron.observation.as_of = overdue_since(due);
    assert_eq!(overdue_run(&cron.observation, due), None, "its controller may still create it");
    cron.observation.as_of = at(60 + 61);
    let of = overdue_run(&cron.observation, due).expect("it should be overdue");
    assert_eq!((of.kind, of.run.as_deref(), of.due), (Kind::CronJob, None, Some(due)));

    let event = |message: &str, second: i64| json!({ "reason": "FailedCreate", "message": message, "lastTimestamp": at(second).to_string() });
    let explained = |events: Vec<Value>| {
        let mut cron = cron.clone();
        explain(&mut cron.observation, &of, &Answers { events, run: None });
        project(&cron, at(130))
    };
    let quota = "Error creating job: jobs.batch \"web-6\" is forbidden: exceeded quota: tight";
    for (events, cause) in [
        (vec![], None),
        (vec![event(quota, 50)], None),
        (vec![event(quota, 61)], Some(Cause::QuotaExceeded)),
        (vec![event("Error creating job: a webhook said no", 100)], Some(Cause::NotAdmitted)),
    ] {
        let status = explained(events.clone());
        let named = status.conditions.first().and_then(|one| one.cause.as_ref());
        assert_eq!(named.map(|named| named.cause), cause, "{events:?}: {status:#?}");
        let health = if cause.is_some() { Health::Degraded } else { Health::Healthy };
        assert_eq!(status.health, health, "{events:?}: {status:#?}");
    }
    let status = explained(vec![event(quota, 61)]);
    let message = &status.conditions[0].message;
    let why = format!("the run of {due} was not created; runs cannot be created: {quota}");
    assert!(message.starts_with(&why), "{message}");

    cron.observation.applied = false;
    assert_eq!(overdue_run(&cron.observation, due), None, "the generation is not applied yet");
}

#[test]
fn f35_events_are_read_only_for_a_run_without_pods() {
    let mut active = inputs(Creating).observation;
    let runs = Some(Runs { repeats: false, last: Run::Active, job: None });
    active.workload = Some(WorkloadSeen { current: true, runs, ..WorkloadSeen::default() });
    assert_eq!(unexplained(&active).len(), 1);
    active.pods = vec![PodSeen { ready: true, problem: None, ..troubled(Cause::Exited, "") }];
    assert_eq!(unexplained(&active), []);
}

#[test]
fn the_worst_problem_is_reported_with_its_object() {
    let mut given = inputs(Creating);
    seen(&mut given, pods(0, 3));
    given.observation.pods = vec![
        troubled(Cause::Readiness, "fails its readiness probe"),
        troubled(Cause::OutOfMemory, "out of memory"),
    ];
    let status = project(&given, at(9));
    let condition = &status.conditions[0];
    assert_eq!(
        condition.message,
        format!("pod web-0 (and 1 more): out of memory; {}", Cause::OutOfMemory.advice())
    );
    let culprit = condition.cause.clone().unwrap();
    assert_eq!((culprit.cause, culprit.object.as_str()), (Cause::OutOfMemory, "Pod/web-0"));
    // A slow start is explained by its pod; pods that are not created, by the workload.
    let mut workload = pods(0, 3);
    let stuck = |cause, detail: &str| {
        Some(trueup_model::observation::PodProblem { cause, detail: detail.to_owned() })
    };
    workload.stuck = stuck(Cause::SlowStart, "it timed out");
    seen(&mut given, workload.clone());
    let condition = project(&given, at(9)).conditions.remove(0);
    assert!(condition.message.starts_with("it timed out; pod web-0 (and 1 more): out of memory; "));
    workload.stuck = stuck(Cause::QuotaExceeded, "no more pods");
    seen(&mut given, workload);
    let condition = project(&given, at(9)).conditions.remove(0);
    assert_eq!(condition.message, format!("no more pods; {}", Cause::QuotaExceeded.advice()));
    assert!(condition.cause.unwrap().object.starts_with("Deployment/"));
}

#[test]
fn every_cause_has_a_unique_advice_and_round_trips() {
    let mut advice: Vec<&str> = Cause::ALL.iter().map(|cause| cause.advice()).collect();
    advice.sort_unstable();
    advice.dedup();
    assert_eq!(advice.len(), Cause::ALL.len());
    for cause in Cause::ALL {
        assert!(cause.advice().len() < 100 && !cause.advice().ends_with('.'), "{cause:?}");
        let text = serde_json::to_string(&cause).unwrap();
        assert_eq!(serde_json::from_str::<Cause>(&text).unwrap(), cause);
    }
}
