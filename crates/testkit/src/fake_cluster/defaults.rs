//! Defaults that an API server sets in what it stores, and zeros that it does not keep.
//!
//! Only those of fields that Trueup states or closes: the contract compares them with a real
//! server.

use serde_json::{Value, json};
use trueup_model::key::Kind;

/// Fields of a container that the server sets, so that they have no owner.
pub(super) const OF_CONTAINER: [&str; 3] =
    ["imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy"];

/// Sets the defaults of an object, and drops the zeros that are not stored.
pub fn fill_defaults(kind: Kind, object: &mut Value) {
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    match kind {
        Kind::Deployment => deployment(spec),
        Kind::StatefulSet => stateful_set(spec),
        Kind::Job => job(spec),
        Kind::CronJob => cron_job(spec),
        Kind::Service => service(spec),
        _ => {}
    }
}

fn set(fields: &mut Value, name: &str, value: impl Into<Value>) {
    if fields[name].is_null() {
        fields[name] = value.into();
    }
}

/// Drops these fields where they are zero, false or empty.
fn drop_zeros(fields: &mut Value, names: &[&str]) {
    let is_zero = |value: &Value| *value == 0 || *value == false || *value == "";
    if let Some(fields) = fields.as_object_mut() {
        fields.retain(|name, value| !names.contains(&name.as_str()) || !is_zero(value));
    }
}

fn deployment(spec: &mut Value) {
    set(&mut spec["strategy"], "type", "RollingUpdate");
    if spec["strategy"]["type"] == "RollingUpdate" {
        for name in ["maxSurge", "maxUnavailable"] {
            set(&mut spec["strategy"]["rollingUpdate"], name, "25%");
        }
    }
    set(spec, "progressDeadlineSeconds", 600);
    drop_zeros(spec, &["paused", "minReadySeconds"]);
    pod_template(spec);
}

fn stateful_set(spec: &mut Value) {
    set(spec, "podManagementPolicy", "OrderedReady");
    if spec["updateStrategy"]["type"].is_null() {
        spec["updateStrategy"]["type"] = "RollingUpdate".into();
        set(&mut spec["updateStrategy"], "rollingUpdate", json!({}));
    }
    if spec["updateStrategy"]["rollingUpdate"].is_object() {
        set(&mut spec["updateStrategy"]["rollingUpdate"], "partition", 0);
    }
    for name in ["whenDeleted", "whenScaled"] {
        set(&mut spec["persistentVolumeClaimRetentionPolicy"], name, "Retain");
    }
    drop_zeros(spec, &["minReadySeconds"]);
    pod_template(spec);
}

fn job(spec: &mut Value) {
    if spec["parallelism"].is_null() {
        set(spec, "completions", 1);
    }
    set(spec, "parallelism", 1);
    set(spec, "completionMode", "NonIndexed");
    set(spec, "backoffLimit", 6);
    set(spec, "suspend", false);
    pod_template(spec);
}

fn cron_job(spec: &mut Value) {
    set(spec, "concurrencyPolicy", "Allow");
    set(spec, "successfulJobsHistoryLimit", 3);
    set(spec, "failedJobsHistoryLimit", 1);
    set(spec, "suspend", false);
    if let Some(run) = spec.pointer_mut("/jobTemplate/spec").filter(|run| run.is_object()) {
        pod_template(run);
    }
}

fn service(spec: &mut Value) {
    set(spec, "type", "ClusterIP");
    set(spec, "sessionAffinity", "None");
    set(spec, "internalTrafficPolicy", "Cluster");
    drop_zeros(spec, &["publishNotReadyAddresses"]);
    let is_external = spec["type"] == "NodePort" || spec["type"] == "LoadBalancer";
    let is_sticky = spec["sessionAffinity"] == "ClientIP";
    if is_external {
        set(spec, "externalTrafficPolicy", "Cluster");
    }
    if is_sticky {
        let timeout = json!({ "clientIP": { "timeoutSeconds": 10_800 } });
        set(spec, "sessionAffinityConfig", timeout);
    }
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|name, _| match name.as_str() {
            "externalTrafficPolicy" => is_external,
            "sessionAffinityConfig" => is_sticky,
            _ => true,
        });
    }
}

/// The pods of a workload with this spec.
fn pod_template(workload: &mut Value) {
    let Some(pod) = workload.pointer_mut("/template/spec").filter(|pod| pod.is_object()) else {
        return;
    };
    set(pod, "restartPolicy", "Always");
    set(pod, "dnsPolicy", "ClusterFirst");
    set(pod, "schedulerName", "default-scheduler");
    set(pod, "terminationGracePeriodSeconds", 30);
    drop_zeros(pod, &["hostNetwork", "hostPID", "hostIPC"]);
    for list in ["containers", "initContainers"] {
        let containers = pod.get_mut(list).and_then(Value::as_array_mut);
        containers.into_iter().flatten().for_each(container);
    }
}

fn container(container: &mut Value) {
    let image = container["image"].as_str().unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    let is_latest = name.ends_with(":latest") || !name.contains([':', '@']);
    set(container, "imagePullPolicy", if is_latest { "Always" } else { "IfNotPresent" });
    set(container, "terminationMessagePath", "/dev/termination-log");
    set(container, "terminationMessagePolicy", "File");
    for name in ["readinessProbe", "livenessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(name).filter(|probe| probe.is_object()) {
            set(probe, "timeoutSeconds", 1);
            set(probe, "periodSeconds", 10);
            set(probe, "successThreshold", 1);
            set(probe, "failureThreshold", 3);
            drop_zeros(probe, &["initialDelaySeconds"]);
            if probe["httpGet"].is_object() {
                set(&mut probe["httpGet"], "scheme", "HTTP");
            }
        }
    }
}
