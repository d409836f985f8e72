//! Every cause outside of Trueup, as Kubernetes words it, and what people are told about it.

use serde_json::{Value, json};
use trueup_model::key::Kind;
use trueup_model::observation::{Cause, Ended, PodSeen, Run, Runs, WorkloadSeen};
use trueup_model::status::Phase::Creating;
use trueup_rules::status::observe::{Answers, explain, unexplained};
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
        ("registry away", waiting("ErrImagePull", "dial tcp: lookup registry: no such host")),
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
    let mut told = String::new();
    for (name, status) in table() {
        let (cause, detail) = match cause(&pod(&status), Some(&ready)) {
            Some((cause, detail)) => {
                (format!("{cause:?}"), format!("{detail}; {}", cause.advice()))
            }
            None => ("-".to_owned(), String::new()),
        };
        told.push_str(&format!("{name}: {cause}\n    {detail}\n"));
    }
    insta::assert_snapshot!(told);
}

#[test]
fn a_pod_on_a_node_that_does_not_answer_says_nothing_that_counts() {
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
    // Where nodes may not be looked at, a node that is not known proves nothing.
    let mut world = running();
    world.server.pods = vec![well];
    assert_eq!(world.observation(true).pods.remove(0).problem, None);
}

#[test]
fn a_node_says_by_its_label_whether_anything_really_runs_there() {
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
        assert!(seed.contains(&format!("\"{word}\"")), "local/kube labels its nodes so");
    }
}

/// F35: the cluster took the Deployment and does not make its pods.
#[test]
fn f35_a_workload_that_gets_no_pods_says_why() {
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
        Some((Cause::QuotaExceeded, format!("pods cannot be made: {quota}")))
    );
    assert_eq!(
        stuck(failure(policy)),
        Some((Cause::NotAdmitted, format!("pods cannot be made: {policy}")))
    );
    let late = json!({ "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "ReplicaSet \"w\" has timed out progressing." });
    assert_eq!(stuck(late).unwrap().0, Cause::SlowStart);
    assert_eq!(stuck(json!({ "type": "Progressing", "status": "True" })), None);
}

/// F35: a set and a job say nothing of themselves; only events tell.
#[test]
fn f35_what_only_events_tell_is_asked_of_single_objects_and_believed_for_a_while() {
    let quota = "create Pod web-0 in StatefulSet web failed error: pods \"web-0\" is forbidden: exceeded quota: tight";
    let event = |reason: &str, message: &str, second: i64| json!({ "type": "Warning", "reason": reason, "message": message, "lastTimestamp": at(second).to_string() });
    let mut lacking = inputs(Creating).observation;
    lacking.workload = Some(WorkloadSeen { existing: 0, updated: 0, ..pods(0, 2) });
    let asked = unexplained(&lacking);
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!((asked[0].kind, asked[0].uid.as_str()), (Kind::Deployment, "uid-5"));
    let told = |events: &[Value]| {
        let mut seen = lacking.clone();
        seen.as_of = at(3600);
        explain(&mut seen, &asked[0], &Answers { events: events.to_vec(), run: None });
        seen.workload.unwrap().stuck.map(|problem| problem.cause)
    };
    assert_eq!(told(&[]), None);
    assert_eq!(told(&[event("FailedCreate", quota, 3000)]), Some(Cause::QuotaExceeded));
    assert_eq!(told(&[event("FailedCreate", quota, 2000)]), None, "long ago");
    assert_eq!(told(&[event("Unhealthy", "a probe failed", 3000)]), None, "the pod says it itself");
    let both = [event("FailedCreate", quota, 3000), event("FailedCreate", "a webhook", 3100)];
    assert_eq!(told(&both), Some(Cause::NotAdmitted), "the newest counts");

    // A pod that is not ready is asked, and whoever says why already is not.
    let mut mounting = lacking.clone();
    mounting.workload = Some(pods(0, 2));
    mounting.pods = vec![PodSeen { problem: None, ..troubled(Cause::Exited, "") }];
    mounting.as_of = at(60);
    let asked = unexplained(&mounting);
    assert_eq!((asked.len(), asked[0].kind), (1, Kind::Pod));
    let events = vec![event("FailedAttachVolume", "Multi-Attach error", 50)];
    explain(&mut mounting, &asked[0], &Answers { events, run: None });
    let problem = mounting.pods[0].problem.clone().unwrap();
    assert_eq!(
        (problem.cause, problem.detail.as_str()),
        (Cause::MountFailed, "Multi-Attach error")
    );
    assert_eq!(unexplained(&mounting), []);
    assert_eq!(unexplained(&inputs(Creating).observation), [], "all is well");
    lacking.applied = false;
    assert_eq!(unexplained(&lacking), [], "there is something to do first");
}

/// What is shown of a cron's last run, when its Job answers like this.
fn run_told(last: Run, job: &Value, events: Vec<Value>) -> (Run, Option<(Cause, String)>) {
    let mut cron = inputs(Creating).observation;
    cron.as_of = at(60);
    let runs = Some(Runs { idempotency_keys: true, last, job: Some("web-5".to_owned()) });
    cron.workload = Some(WorkloadSeen { current: true, runs, ..WorkloadSeen::default() });
    let asked = unexplained(&cron);
    assert_eq!((asked.len(), asked[0].run.as_deref()), (1, Some("web-5")));
    explain(&mut cron, &asked[0], &Answers { events, run: Some(job.clone()) });
    let workload = cron.workload.expect("it should still be there");
    let stuck = workload.stuck.map(|problem| (problem.cause, problem.detail));
    (workload.runs.expect("runs").last, stuck)
}

#[test]
fn the_job_of_a_crons_last_run_says_why_it_has_no_pods_or_failed() {
    let job = |owner: &str, conditions: Value| {
        json!({
            "metadata": { "name": "web-5", "ownerReferences": [{ "uid": owner, "controller": true }] },
            "status": { "conditions": conditions },
        })
    };
    let ended = |reason: &str, message: &str| json!([{ "type": "Failed", "status": "True", "reason": reason, "message": message }]);
    let failed = || Run::Failed { why: "the run of noon did not succeed".to_owned() };
    let late = ended("DeadlineExceeded", "Job was active longer than specified deadline");
    let (_, stuck) = run_told(failed(), &job("uid-5", late.clone()), Vec::new());
    assert_eq!(stuck.map(|(cause, _)| cause), Some(Cause::TimeLimit));

    let often = ended("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    let (last, stuck) = run_told(failed(), &job("uid-5", often), Vec::new());
    let why = "the run of noon did not succeed: Job has reached the specified backoff limit";
    assert_eq!((last, stuck), (Run::Failed { why: why.to_owned() }, None));

    let quota = json!({ "reason": "FailedCreate", "message": "exceeded quota: tight", "lastTimestamp": at(50).to_string() });
    let (_, stuck) = run_told(Run::Active, &job("uid-5", json!([])), vec![quota.clone()]);
    assert_eq!(stuck.map(|(cause, _)| cause), Some(Cause::QuotaExceeded));

    // Nothing is believed of a Job that somebody else made, nor of one that is ahead of its cron.
    for (owner, last, conditions) in
        [("else", failed(), late.clone()), ("uid-5", Run::Active, late)]
    {
        let told = run_told(last.clone(), &job(owner, conditions), vec![quota.clone()]);
        assert_eq!(told, (last, None));
    }
}

#[test]
fn a_run_whose_pods_say_why_is_not_asked_about() {
    let mut cron = inputs(Creating).observation;
    let last = Run::Failed { why: "no luck".to_owned() };
    let runs = Some(Runs { idempotency_keys: true, last, job: Some("web-5".to_owned()) });
    cron.workload = Some(WorkloadSeen { current: true, runs, ..WorkloadSeen::default() });
    cron.pods =
        vec![PodSeen { ended: Some(Ended::Badly), ..troubled(Cause::Exited, "exit code 1") }];
    assert_eq!(unexplained(&cron), []);
}

#[test]
fn f35_a_run_without_a_pod_is_asked_about_and_one_with_a_pod_is_not() {
    let mut active = inputs(Creating).observation;
    let runs = Some(Runs { idempotency_keys: false, last: Run::Active, job: None });
    active.workload = Some(WorkloadSeen { current: true, runs, ..WorkloadSeen::default() });
    assert_eq!(unexplained(&active).len(), 1);
    active.pods = vec![PodSeen { ready: true, problem: None, ..troubled(Cause::Exited, "") }];
    assert_eq!(unexplained(&active), []);
}

#[test]
fn the_worst_trouble_is_told_with_who_shows_it() {
    let mut given = inputs(Creating);
    seen(&mut given, pods(0, 3));
    given.observation.pods = vec![
        troubled(Cause::Readiness, "it does not pass its readiness check"),
        troubled(Cause::OutOfMemory, "it was stopped"),
    ];
    let told = project(&given, at(9));
    let condition = &told.conditions[0];
    assert_eq!(
        condition.message,
        format!("pod web-0 (and 1 more): it was stopped; {}", Cause::OutOfMemory.advice())
    );
    let culprit = condition.cause.clone().unwrap();
    assert_eq!((culprit.cause, culprit.object.as_str()), (Cause::OutOfMemory, "Pod/web-0"));
    // A start that takes too long is explained by its pod; pods that are not made, by the workload.
    let mut workload = pods(0, 3);
    let stuck = |cause, detail: &str| {
        Some(trueup_model::observation::PodProblem { cause, detail: detail.to_owned() })
    };
    workload.stuck = stuck(Cause::SlowStart, "it timed out");
    seen(&mut given, workload.clone());
    let told = project(&given, at(9)).conditions.remove(0);
    assert!(told.message.starts_with("it timed out; pod web-0 (and 1 more): it was stopped; "));
    workload.stuck = stuck(Cause::QuotaExceeded, "no more pods");
    seen(&mut given, workload);
    let told = project(&given, at(9)).conditions.remove(0);
    assert_eq!(told.message, format!("no more pods; {}", Cause::QuotaExceeded.advice()));
    assert!(told.cause.unwrap().object.starts_with("Deployment/"));
}

#[test]
fn every_cause_has_an_advice_of_its_own_and_reads_back() {
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
