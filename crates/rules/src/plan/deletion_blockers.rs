//! Why an object that is being deleted still exists, and what would unblock the deletion.
//!
//! A deletion in progress is waited for, with its reason. After five minutes the unit is blocked
//! and names the blocker. Retries go on all the same.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::report::Outcome;

use crate::render::names;

/// How long a deletion may take before the unit is blocked.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// What the deletion of an object waits for, or why it is blocked.
pub(super) fn outcome(key: &ResourceKey, object: &Value, as_of: Timestamp) -> Outcome {
    let Some(DeletionBlocker { by, advice }) = blocker(key, object) else {
        return Outcome::Waiting { on: format!("{key} to be gone") };
    };
    if is_overdue(object, as_of) {
        Outcome::Blocked { why: format!("{key} is stuck terminating: {by}; {advice}") }
    } else {
        Outcome::Waiting { on: format!("{key} to be gone: {by}") }
    }
}

/// What the creation of an object waits for while its predecessor is terminating.
pub(super) fn ending(key: &ResourceKey, object: Option<&Value>) -> String {
    let by = object.and_then(|object| blocker(key, object)).map(|blocker| blocker.by);
    match by {
        Some(by) => format!("{key} to finish terminating: {by}"),
        None => format!("{key} to finish terminating"),
    }
}

/// The same for the pods of a service.
pub(super) fn pods<'a>(
    pods: impl ExactSizeIterator<Item = &'a Value>,
    as_of: Timestamp,
) -> Outcome {
    let number = pods.len();
    let late = pods.filter(|pod| is_overdue(pod, as_of)).find_map(|pod| {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let node = pod["spec"]["nodeName"].as_str();
        let foreign = foreign_finalizers(pod);
        match (foreign.as_slice(), node) {
            ([], None) => None,
            ([], Some(node)) => Some(format!(
                "pod {name} is stuck terminating: node {node} does not confirm that the pod \
                 stopped; bring the node back, or make sure that it is off and force-delete the \
                 pod"
            )),
            (foreign, _) => Some(format!(
                "pod {name} is stuck terminating: {}; {FINALIZER_ADVICE}",
                blocked_by(foreign)
            )),
        }
    });
    if let Some(why) = late {
        return Outcome::Blocked { why };
    }
    Outcome::Waiting {
        on: match number {
            1 => "1 pod to be gone".to_owned(),
            number => format!("{number} pods to be gone"),
        },
    }
}

/// What the deletion of a volume waits for, after its claim is gone.
#[must_use]
pub fn volume(volume: &Value) -> Outcome {
    let name = volume["metadata"]["name"].as_str().unwrap_or_default();
    let policy = volume["spec"]["persistentVolumeReclaimPolicy"].as_str().unwrap_or("Retain");
    let phase = volume["status"]["phase"].as_str().unwrap_or_default();
    let foreign = foreign_finalizers(volume);
    if policy == "Retain" {
        let why = format!(
            "PersistentVolume/{name} is kept: its reclaim policy is Retain; save or wipe its data \
             and delete the volume; the deletion then continues"
        );
        return Outcome::Blocked { why };
    }
    if phase == "Failed" {
        let message =
            volume["status"]["message"].as_str().unwrap_or("its provisioner gives no reason");
        let why = format!(
            "PersistentVolume/{name} could not be reclaimed: {message}; fix its storage or delete the \
             volume; the deletion then continues"
        );
        return Outcome::Blocked { why };
    }
    let by = if foreign.is_empty() { String::new() } else { format!(": {}", blocked_by(&foreign)) };
    Outcome::Waiting { on: format!("PersistentVolume/{name} to be gone{by}") }
}

struct DeletionBlocker {
    by: String,
    advice: String,
}

const FINALIZER_ADVICE: &str =
    "let its controller finish, or ask its owner to remove the finalizer";

fn blocker(key: &ResourceKey, object: &Value) -> Option<DeletionBlocker> {
    if key.kind == Kind::Namespace {
        return namespace(object);
    }
    let foreign = foreign_finalizers(object);
    if !foreign.is_empty() {
        return Some(DeletionBlocker {
            by: blocked_by(&foreign),
            advice: FINALIZER_ADVICE.to_owned(),
        });
    }
    let own = finalizers(object).find_map(|finalizer| match finalizer {
        "kubernetes.io/pvc-protection" => {
            Some(("a pod still uses it", "find that pod and stop it"))
        }
        "foregroundDeletion" => {
            Some(("its dependents are deleted first", "look for dependents that are stuck"))
        }
        _ => None,
    });
    own.map(|(by, advice)| DeletionBlocker { by: by.to_owned(), advice: advice.to_owned() })
}

/// What the namespace controller reports for a namespace that stays terminating.
fn namespace(object: &Value) -> Option<DeletionBlocker> {
    const FAILURES: [&str; 5] = [
        "NamespaceDeletionDiscoveryFailure",
        "NamespaceDeletionGroupVersionParsingFailure",
        "NamespaceDeletionContentFailure",
        "NamespaceFinalizersRemaining",
        "NamespaceContentRemaining",
    ];
    let conditions = object["status"]["conditions"].as_array()?;
    let failed = FAILURES.into_iter().find_map(|name| {
        conditions
            .iter()
            .find(|condition| condition["type"] == name && condition["status"] == "True")
    })?;
    let message = failed["message"].as_str().unwrap_or_default();
    let advice = match failed["type"].as_str() {
        Some(
            "NamespaceDeletionDiscoveryFailure" | "NamespaceDeletionGroupVersionParsingFailure",
        ) => "an APIService does not answer (`kubectl get apiservices`): fix it or remove it",
        Some("NamespaceFinalizersRemaining" | "NamespaceContentRemaining") => FINALIZER_ADVICE,
        Some(_) | None => "ask the operator of the cluster to look at the namespace",
    };
    let by = format!("the namespace controller says: {message}");
    Some(DeletionBlocker { by, advice: advice.to_owned() })
}

fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Finalizers that are neither ours nor of Kubernetes itself.
fn foreign_finalizers(object: &Value) -> Vec<&str> {
    const KUBERNETES: [&str; 6] = [
        "kubernetes.io/pvc-protection",
        "kubernetes.io/pv-protection",
        "foregroundDeletion",
        "orphan",
        "batch.kubernetes.io/job-tracking",
        names::ANCHOR_FINALIZER,
    ];
    finalizers(object).filter(|finalizer| !KUBERNETES.contains(finalizer)).collect()
}

fn blocked_by(foreign: &[&str]) -> String {
    match foreign {
        [one] => format!("deletion blocked by foreign finalizer `{one}`"),
        many => format!("deletion blocked by foreign finalizers `{}`", many.join("`, `")),
    }
}

/// Whether the deletion takes too long. For a pod, time counts from the end of its grace period.
fn is_overdue(object: &Value, as_of: Timestamp) -> bool {
    object["metadata"]["deletionTimestamp"]
        .as_str()
        .and_then(|text| text.parse::<Timestamp>().ok())
        .is_some_and(|since| as_of.duration_since(since) > PATIENCE)
}
