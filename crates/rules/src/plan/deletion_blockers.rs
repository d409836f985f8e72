//! Why something that shall be gone is still there, and what would let it go.
//!
//! What passes by itself is waited for, with its reason. What lasts needs a person: then the unit is
//! blocked and says who holds what. It is tried again all the same.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::report::Outcome;

use crate::render::names;

/// How long something may take to go before a person should look.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// What an object that is being deleted waits for, or that a person has to act.
pub(super) fn going(key: &ResourceKey, object: &Value, as_of: Timestamp) -> Outcome {
    let Some(DeletionBlocker { by, advice }) = hold(key, object) else {
        return Outcome::Waiting { on: format!("{key} to be gone") };
    };
    if lasts(object, as_of) {
        Outcome::Blocked { why: format!("{key} does not go: {by}; {advice}") }
    } else {
        Outcome::Waiting { on: format!("{key} to be gone: {by}") }
    }
}

/// What stands where something shall be made anew, and when it will be gone.
pub(super) fn ending(key: &ResourceKey, object: Option<&Value>) -> String {
    let by = object.and_then(|object| hold(key, object)).map(|hold| hold.by);
    match by {
        Some(by) => format!("{key} to finish terminating: {by}"),
        None => format!("{key} to finish terminating"),
    }
}

/// The same for a service's pods.
pub(super) fn pods<'a>(
    pods: impl ExactSizeIterator<Item = &'a Value>,
    as_of: Timestamp,
) -> Outcome {
    let number = pods.len();
    let late = pods.filter(|pod| lasts(pod, as_of)).find_map(|pod| {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let node = pod["spec"]["nodeName"].as_str();
        let held = foreign_finalizers(pod);
        match (held.as_slice(), node) {
            ([], None) => None,
            ([], Some(node)) => Some(format!(
                "pod {name} does not go: node {node} does not confirm that it stopped; bring the node \
                 back, or make sure that it is off and delete the pod by force"
            )),
            (held, _) => Some(format!("pod {name} does not go: {}; {FINALIZER_ADVICE}", owners(held))),
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

/// What a volume waits for that is left behind a claim that is gone.
#[must_use]
pub fn volume(volume: &Value) -> Outcome {
    let name = volume["metadata"]["name"].as_str().unwrap_or_default();
    let policy = volume["spec"]["persistentVolumeReclaimPolicy"].as_str().unwrap_or("Retain");
    let phase = volume["status"]["phase"].as_str().unwrap_or_default();
    let held = foreign_finalizers(volume);
    if policy == "Retain" {
        let why = format!(
            "PersistentVolume/{name} stays: its reclaim policy is Retain; save or wipe its data and \
             delete the volume, then this goes on by itself"
        );
        return Outcome::Blocked { why };
    }
    if phase == "Failed" {
        let said =
            volume["status"]["message"].as_str().unwrap_or("its provisioner gives no reason");
        let why = format!(
            "PersistentVolume/{name} could not be reclaimed: {said}; mend its storage or delete the \
             volume, then this goes on by itself"
        );
        return Outcome::Blocked { why };
    }
    let by = if held.is_empty() { String::new() } else { format!(": {}", owners(&held)) };
    Outcome::Waiting { on: format!("PersistentVolume/{name} to be gone{by}") }
}

struct DeletionBlocker {
    by: String,
    advice: String,
}

const FINALIZER_ADVICE: &str =
    "let its controller finish, or ask its owner to take the finalizer off";

fn hold(key: &ResourceKey, object: &Value) -> Option<DeletionBlocker> {
    if key.kind == Kind::Namespace {
        return namespace(object);
    }
    let held = foreign_finalizers(object);
    if !held.is_empty() {
        return Some(DeletionBlocker { by: owners(&held), advice: FINALIZER_ADVICE.to_owned() });
    }
    let own = finalizers(object).find_map(|finalizer| match finalizer {
        "kubernetes.io/pvc-protection" => {
            Some(("a pod still uses it", "find that pod and stop it"))
        }
        "foregroundDeletion" => {
            Some(("what it owns goes first", "look for objects that it owns and that are held"))
        }
        _ => None,
    });
    own.map(|(by, advice)| DeletionBlocker { by: by.to_owned(), advice: advice.to_owned() })
}

/// What the namespace controller says about a namespace that does not end.
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
    let said = failed["message"].as_str().unwrap_or_default();
    let advice = match failed["type"].as_str() {
        Some(
            "NamespaceDeletionDiscoveryFailure" | "NamespaceDeletionGroupVersionParsingFailure",
        ) => "an APIService does not answer (`kubectl get apiservices`): mend it or remove it",
        Some("NamespaceFinalizersRemaining" | "NamespaceContentRemaining") => FINALIZER_ADVICE,
        Some(_) | None => "ask the operator of the cluster to look at the namespace",
    };
    let by = format!("its namespace controller says: {said}");
    Some(DeletionBlocker { by, advice: advice.to_owned() })
}

fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Finalizers that are neither ours nor Kubernetes' own.
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

fn owners(held: &[&str]) -> String {
    match held {
        [one] => format!("the finalizer `{one}` of somebody else holds it"),
        many => format!("the finalizers `{}` of somebody else hold it", many.join("`, `")),
    }
}

/// Whether it goes for longer than it should. A pod's time counts from the end of its grace.
fn lasts(object: &Value, as_of: Timestamp) -> bool {
    object["metadata"]["deletionTimestamp"]
        .as_str()
        .and_then(|text| text.parse::<Timestamp>().ok())
        .is_some_and(|since| as_of.duration_since(since) > PATIENCE)
}
