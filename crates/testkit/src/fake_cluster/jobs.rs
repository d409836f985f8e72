//! Jobs: one pod that has done its work as soon as it is made, and the status that follows from it.
//!
//! A CronJob waits for the clock, and there is none here: it stands still until somebody edits it.

use serde_json::{Value, json};
use trueup_model::key::{Kind, ResourceKey};

use super::pods;
use super::state::State;

/// A run of an image with this name ends with an error.
const FAILS: &str = "fails:";

/// Brings a Job's pod and status to what its spec says. What has ended stays as it is.
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

/// What the server adds to a new Job: the selector that finds its pods, and the labels for it.
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
