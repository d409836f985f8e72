//! Fields that are stated although the API server would set the same value: see
//! `render::stated`. A change of them by another writer is reverted.

use serde_json::{Value, json};
use trueup_model::drift::Divergence;
use trueup_model::key::Kind;
use trueup_model::report::{ObjectChange, Outcome};
use trueup_rules::plan::Action;

use crate::closed::{key_of, put, running};

/// Template, kind and pointer, and a value.
type Row = (&'static str, Kind, &'static str, Value);

fn deployments() -> Vec<Row> {
    let row = |pointer, value| ("web", Kind::Deployment, pointer, value);
    let quarter = json!({"maxSurge": "25%", "maxUnavailable": "25%"});
    let http = json!({"path": "/", "port": "http", "scheme": "HTTP"});
    let probe = json!({"httpGet": http, "timeoutSeconds": 1, "periodSeconds": 10,
                       "successThreshold": 1, "failureThreshold": 3});
    vec![
        row("/spec/strategy", json!({"type": "RollingUpdate", "rollingUpdate": quarter})),
        row("/spec/progressDeadlineSeconds", json!(600)),
        row("/spec/template/spec/restartPolicy", json!("Always")),
        row("/spec/template/spec/terminationGracePeriodSeconds", json!(30)),
        row("/spec/template/spec/dnsPolicy", json!("ClusterFirst")),
        row("/spec/template/spec/schedulerName", json!("default-scheduler")),
        row("/spec/template/spec/serviceAccountName", json!("trueup-workload")),
        row("/spec/template/spec/automountServiceAccountToken", json!(false)),
        row("/spec/template/spec/enableServiceLinks", json!(false)),
        row("/spec/template/spec/containers/0/imagePullPolicy", json!("IfNotPresent")),
        row(
            "/spec/template/spec/containers/0/terminationMessagePath",
            json!("/dev/termination-log"),
        ),
        row("/spec/template/spec/containers/0/terminationMessagePolicy", json!("File")),
        row("/spec/template/spec/containers/0/readinessProbe", probe),
    ]
}

fn others() -> Vec<Row> {
    let service = |pointer, value| ("web", Kind::Service, pointer, value);
    let set = |pointer, value| ("minecraft", Kind::StatefulSet, pointer, value);
    let job = |pointer, value| ("gpu-job", Kind::Job, pointer, value);
    let cron = |pointer, value| ("cron", Kind::CronJob, pointer, value);
    let whole = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
    let retain = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    vec![
        service("/spec/type", json!("ClusterIP")),
        service("/spec/sessionAffinity", json!("None")),
        service("/spec/internalTrafficPolicy", json!("Cluster")),
        set("/spec/updateStrategy", whole),
        set("/spec/podManagementPolicy", json!("OrderedReady")),
        set("/spec/persistentVolumeClaimRetentionPolicy", retain),
        job("/spec/completions", json!(1)),
        job("/spec/parallelism", json!(1)),
        job("/spec/completionMode", json!("NonIndexed")),
        job("/spec/suspend", json!(false)),
        job("/spec/template/spec/restartPolicy", json!("Never")),
        cron("/spec/concurrencyPolicy", json!("Forbid")),
        cron("/spec/startingDeadlineSeconds", json!(300)),
        cron("/spec/successfulJobsHistoryLimit", json!(1)),
        cron("/spec/failedJobsHistoryLimit", json!(1)),
        cron("/spec/suspend", json!(false)),
        cron("/spec/jobTemplate/spec/completions", json!(1)),
        cron("/spec/jobTemplate/spec/parallelism", json!(1)),
        cron("/spec/jobTemplate/spec/completionMode", json!("NonIndexed")),
    ]
}

#[test]
fn what_decides_how_a_service_runs_is_stated() {
    for (template, kind, pointer, value) in deployments().into_iter().chain(others()) {
        let world = running(template);
        let object = &world.server.objects[&key_of(&world, kind)];
        assert_eq!(object.pointer(pointer), Some(&value), "{kind} {pointer}");
    }
}

/// The server drops zero and false, so a stated one would look like drift for ever.
#[test]
fn no_zero_or_false_is_stated_that_the_server_drops() {
    let dropped =
        ["paused", "minReadySeconds", "hostNetwork", "hostPID", "hostIPC", "initialDelaySeconds"];
    for (template, kind) in [
        ("web", Kind::Deployment),
        ("web", Kind::Service),
        ("minecraft", Kind::StatefulSet),
        ("gpu-job", Kind::Job),
        ("cron", Kind::CronJob),
    ] {
        let world = running(template);
        let text = world.server.objects[&key_of(&world, kind)].to_string();
        for field in dropped.iter().chain(&["publishNotReadyAddresses"]) {
            assert!(!text.contains(&format!("\"{field}\"")), "{kind} has {field}");
        }
    }
}

#[test]
fn an_outside_change_of_a_stated_field_is_written_back() {
    let pod = "/spec/template/spec";
    let rows: Vec<(&str, Kind, String, Value)> = vec![
        ("web", Kind::Deployment, "/spec/strategy".to_owned(), json!({"type": "Recreate"})),
        ("web", Kind::Deployment, "/spec/progressDeadlineSeconds".to_owned(), json!(2)),
        ("web", Kind::Deployment, format!("{pod}/terminationGracePeriodSeconds"), json!(0)),
        ("web", Kind::Deployment, format!("{pod}/dnsPolicy"), json!("Default")),
        ("web", Kind::Deployment, format!("{pod}/schedulerName"), json!("theirs")),
        ("web", Kind::Deployment, format!("{pod}/automountServiceAccountToken"), json!(true)),
        ("web", Kind::Deployment, format!("{pod}/containers/0/imagePullPolicy"), json!("Never")),
        (
            "web",
            Kind::Deployment,
            format!("{pod}/containers/0/readinessProbe/failureThreshold"),
            json!(99),
        ),
        ("web", Kind::Service, "/spec/type".to_owned(), json!("NodePort")),
        ("web", Kind::Service, "/spec/sessionAffinity".to_owned(), json!("ClientIP")),
        ("web", Kind::Service, "/spec/internalTrafficPolicy".to_owned(), json!("Local")),
        (
            "minecraft",
            Kind::StatefulSet,
            "/spec/updateStrategy".to_owned(),
            json!({"type": "OnDelete"}),
        ),
        (
            "minecraft",
            Kind::StatefulSet,
            "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted".to_owned(),
            json!("Delete"),
        ),
        ("gpu-job", Kind::Job, "/spec/parallelism".to_owned(), json!(0)),
        ("cron", Kind::CronJob, "/spec/concurrencyPolicy".to_owned(), json!("Allow")),
        ("cron", Kind::CronJob, "/spec/jobTemplate/spec/parallelism".to_owned(), json!(5)),
    ];
    for (template, kind, pointer, theirs) in rows {
        let mut world = running(template);
        let key = key_of(&world, kind);
        let before = world.server.objects[&key]["spec"].clone();
        world.server.edit(&key, |live| put(live, &pointer, theirs));
        let pass = world.reconcile();
        let actions = pass.rounds.concat();
        let [Action::Apply { change: ObjectChange::ModifiedExternally { fields, .. }, .. }] =
            actions.as_slice()
        else {
            unreachable!("{kind} {pointer} should be written back, got {pass:?}")
        };
        let top = pointer.split('/').nth(2).unwrap_or_default();
        let is_it = |one: &Divergence| one.field.starts_with(&format!("spec.{top}"));
        assert!(!fields.is_empty() && fields.iter().all(is_it), "{pointer} was called {fields:?}");
        assert_eq!(pass.outcome, Outcome::Converged);
        assert_eq!(world.server.objects[&key]["spec"], before, "{kind} {pointer}");
    }
}

/// A StatefulSet with another policy cannot be changed; only its owner can say what to do.
#[test]
fn another_pod_management_policy_blocks_instead_of_being_retried() {
    let mut world = running("minecraft");
    let key = key_of(&world, Kind::StatefulSet);
    world.server.edit(&key, |live| live["spec"]["podManagementPolicy"] = json!("Parallel"));
    let plan = world.plan();
    let Outcome::Blocked { why } = &plan.outcome else {
        unreachable!("it should be blocked: {plan:?}")
    };
    assert!(why.contains("spec.podManagementPolicy"), "{why}");
}

#[test]
fn a_foreign_probe_is_replaced_by_ours_in_one_write() {
    let mut world = running("web");
    let key = key_of(&world, Kind::Deployment);
    let before = world.server.objects[&key]["spec"].clone();
    world.server.edit(&key, |live| {
        let theirs = json!({"exec": {"command": ["true"]}, "periodSeconds": 10});
        put(live, "/spec/template/spec/containers/0/readinessProbe", theirs);
    });
    let pass = world.reconcile();
    assert_eq!(pass.rounds.len(), 1, "{pass:?}");
    assert!(matches!(pass.rounds[0].as_slice(), [Action::Prune { .. }]), "{pass:?}");
    assert_eq!(world.server.objects[&key]["spec"], before);
}

#[test]
fn a_stateful_set_stops_one_pod_at_a_time() {
    let mut world = running("minecraft");
    let key = key_of(&world, Kind::StatefulSet);
    let place = "/spec/updateStrategy/rollingUpdate/maxUnavailable";
    world.server.edit(&key, |live| put(live, place, json!("100%")));
    let pass = world.reconcile();
    assert!(matches!(pass.rounds.concat().as_slice(), [Action::Prune { .. }]), "{pass:?}");
    assert_eq!(world.server.objects[&key].pointer(place), Some(&json!(1)));
    assert_eq!(world.plan().actions, []);
}
