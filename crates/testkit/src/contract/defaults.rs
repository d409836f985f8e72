//! Defaults of the server: stating one changes nothing, and a zero is not stored.

use serde_json::{Value, json};
use trueup_model::key::{Kind, ResourceKey};

use super::place::{labelled, text};
use super::workloads::{deployment, until_ready, workload};
use super::{Check, Place};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("stated_defaults_of_deployment_keep_its_pods", |at| {
        Box::pin(stated_defaults_of_deployment_keep_its_pods(at))
    }),
    ("stated_defaults_change_nothing", |at| Box::pin(stated_defaults_change_nothing(at))),
    ("zeros_are_not_stored", |at| Box::pin(zeros_are_not_stored(at))),
    ("stated_default_is_applied_again", |at| Box::pin(stated_default_is_applied_again(at))),
    ("pod_management_policy_is_immutable", |at| Box::pin(pod_management_policy_is_immutable(at))),
];

fn merge(target: &mut Value, source: &Value) {
    match (target, source) {
        (Value::Object(target), Value::Object(source)) => {
            for (name, value) in source {
                merge(target.entry(name).or_insert(Value::Null), value);
            }
        }
        (target, source) => *target = source.clone(),
    }
}

/// The pod's part of what Trueup states. The container is the contract's own.
fn pod() -> Value {
    let container = json!({
        "name": "main", "image": "registry.invalid/contract:1", "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    });
    json!({
        "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
        "containers": [container],
    })
}

fn rollout() -> Value {
    let quarter = json!({ "maxSurge": "25%", "maxUnavailable": "25%" });
    let mut pod = pod();
    pod["restartPolicy"] = "Always".into();
    json!({
        "strategy": { "type": "RollingUpdate", "rollingUpdate": quarter },
        "progressDeadlineSeconds": 600, "template": { "spec": pod },
    })
}

async fn stated_defaults_of_deployment_keep_its_pods(at: &Place) {
    let (key, mut object) = deployment(at, "web", 1);
    at.apply(&key, &object).await;
    let before = until_ready(at, &key, 1).await;
    let pod = text(&at.until_pods(1).await[0], "uid");
    merge(&mut object["spec"], &rollout());
    let after = at.apply(&key, &object).await;
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"]);
    assert_eq!(text(&at.until_pods(1).await[0], "uid"), pod);
}

/// Objects without what Trueup states, and what it states.
fn plain_and_stated(at: &Place) -> Vec<(ResourceKey, Value, Value)> {
    let named = |kind, spec| (at.key(kind, "one"), spec);
    let (set, set_spec) = named(Kind::StatefulSet, workload("one", 0));
    let whole = json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } });
    let mut always = pod();
    always["restartPolicy"] = "Always".into();
    let of_set = json!({
        "podManagementPolicy": "OrderedReady", "updateStrategy": whole,
        "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Retain", "whenScaled": "Retain" },
        "template": { "spec": always },
    });
    let mut never = workload("one", 1)["template"].clone();
    never["spec"]["restartPolicy"] = "Never".into();
    let (job, job_spec) = named(Kind::Job, json!({ "suspend": true, "template": never }));
    let of_job = json!({
        "completions": 1, "parallelism": 1, "completionMode": "NonIndexed",
        "template": { "spec": pod() },
    });
    let (service, service_spec) = named(
        Kind::Service,
        json!({ "selector": { "trueup.dev/name": "one" }, "ports": [{ "port": 80 }] }),
    );
    let of_service = json!({
        "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
    });
    vec![(set, set_spec, of_set), (job, job_spec, of_job), (service, service_spec, of_service)]
}

async fn stated_defaults_change_nothing(at: &Place) {
    for (key, spec, stated) in plain_and_stated(at) {
        let mut object = labelled(&key);
        object["spec"] = spec;
        let before = at.apply(&key, &object).await;
        merge(&mut object["spec"], &stated);
        assert_eq!(at.apply(&key, &object).await["spec"], before["spec"], "{key}");
    }
}

/// Why Trueup closes these fields instead of stating them: what was applied is not read back.
async fn zeros_are_not_stored(at: &Place) {
    let (key, mut object) = deployment(at, "web", 0);
    let pod = json!({ "hostNetwork": false, "hostPID": false, "hostIPC": false });
    let zeros = json!({ "paused": false, "minReadySeconds": 0, "template": { "spec": pod } });
    merge(&mut object["spec"], &zeros);
    let stored = at.apply(&key, &object).await;
    for name in ["paused", "minReadySeconds"] {
        assert_eq!(stored["spec"].get(name), None, "{name}");
    }
    for name in ["hostNetwork", "hostPID", "hostIPC"] {
        assert_eq!(stored["spec"]["template"]["spec"].get(name), None, "{name}");
    }
}

async fn stated_default_is_applied_again(at: &Place) {
    let (key, mut object) = deployment(at, "web", 0);
    merge(&mut object["spec"], &rollout());
    let before = at.apply(&key, &object).await;
    let recreate = json!({ "type": "Recreate", "rollingUpdate": null });
    let edited = at.patch(&key, &json!({ "spec": { "strategy": recreate } })).await;
    assert_eq!(edited["spec"]["strategy"], json!({ "type": "Recreate" }));
    assert_eq!(at.apply(&key, &object).await["spec"], before["spec"]);

    let key = at.key(Kind::Service, "web");
    let mut object = labelled(&key);
    object["spec"] =
        json!({ "type": "ClusterIP", "sessionAffinity": "None", "ports": [{ "port": 80 }] });
    let before = at.apply(&key, &object).await;
    let theirs = json!({ "spec": { "type": "NodePort", "sessionAffinity": "ClientIP" } });
    let edited = at.patch(&key, &theirs).await;
    assert_eq!(edited["spec"]["externalTrafficPolicy"], "Cluster");
    let after = at.apply(&key, &object).await;
    for name in ["type", "sessionAffinity", "sessionAffinityConfig", "externalTrafficPolicy"] {
        assert_eq!(after["spec"].get(name), before["spec"].get(name), "{name}");
    }
}

async fn pod_management_policy_is_immutable(at: &Place) {
    let key = at.key(Kind::StatefulSet, "db");
    let mut object = labelled(&key);
    object["spec"] = workload("db", 0);
    at.apply(&key, &object).await;
    object["spec"]["podManagementPolicy"] = "Parallel".into();
    let refused = at.cluster.apply(&key, &object).await;
    assert!(matches!(refused, Err(trueup_cluster::CallError::Refused(_))), "{refused:?}");
}
