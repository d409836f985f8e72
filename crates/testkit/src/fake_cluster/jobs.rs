//! The Job controller: one pod that ends as soon as it is created, and the Job's status.
//!
//! A CronJob never starts a Job: there is no clock here.

use serde_json::{Value, json};
use trueup_model::key::{Kind, ResourceKey};

use super::pods;
use super::state::State;

/// Runs of images with this prefix fail.
const FAILS: &str = "fails:";

/// Updates a Job's pod and status to its spec. A Job that has ended stays as it is.
pub(super) fn reconcile(state: &mut State, key: &ResourceKey) {
    let Some(job) = state.get(key).cloned() else {
        return;
    };
    if job.pointer("/metadata/deletionTimestamp").is_some() || has_ended(&job) {
        return;
    }
    let pod = ResourceKey::new(Kind::Pod, &key.namespace, &format!("{}-0", key.name));
    if job["spec"]["suspend"] == true {
        state.delete(&pod);
        set_condition(state, key, "Suspended", "JobSuspended", "Job suspended");
        return;
    }
    let fails = job["spec"]["template"]["spec"]["containers"][0]["image"]
        .as_str()
        .is_some_and(|image| image.starts_with(FAILS));
    if state.get(&pod).is_none() {
        let ended = pods::ended(key, &job, i64::from(fails));
        state.edit(&pod, |new| {
            for field in ["metadata", "spec", "status"] {
                new[field] = ended[field].clone();
            }
            new["metadata"]["name"] = pod.name.as_str().into();
        });
    }
    if fails {
        let message = "Job has reached the specified backoff limit";
        set_condition(state, key, "Failed", "BackoffLimitExceeded", message);
    } else {
        set_condition(state, key, "Complete", "CompletionsReached", "Reached expected number");
    }
}

/// Adds the server's defaults to a new Job: the pod selector and its labels.
pub(super) fn select(job: &mut Value) {
    let uid = job["metadata"]["uid"].clone();
    let name = job["metadata"]["name"].clone();
    job["spec"]["selector"] = json!({ "matchLabels": { CONTROLLER: uid } });
    let labels = &mut job["spec"]["template"]["metadata"]["labels"];
    labels[CONTROLLER] = uid;
    labels["batch.kubernetes.io/job-name"] = name;
}

const CONTROLLER: &str = "batch.kubernetes.io/controller-uid";

fn has_ended(job: &Value) -> bool {
    job.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten().any(
        |condition| {
            ["Complete", "Failed"].iter().any(|kind| condition["type"] == *kind)
                && condition["status"] == "True"
        },
    )
}

fn set_condition(state: &mut State, key: &ResourceKey, kind: &str, reason: &str, message: &str) {
    let condition = json!({ "type": kind, "status": "True", "reason": reason, "message": message });
    state.edit(key, |job| job["status"] = json!({ "conditions": [condition] }));
}
