//! Deletion blockers are named, and block the unit only after five minutes.

use serde_json::{Value, json};
use trueup_model::key::Kind;
use trueup_model::report::Outcome;
use trueup_model::service::DesiredState;
use trueup_rules::plan::{Observed, plan, volume_left};

use crate::given;
use crate::world::World;

/// The outcome of a deletion after this change to one object, so many minutes ago.
fn outcome_after(minutes: i64, kind: Kind, change: impl Fn(&mut Value)) -> Outcome {
    let mut world = World::service(given::template("minecraft"), json!({}));
    world.reconcile();
    world.server.catch_up();
    world.reconcile();
    world.desire(DesiredState::Deleted);
    let key = world.server.objects.keys().find(|key| key.kind == kind).cloned().expect("an object");
    world.server.edit(&key, |object| {
        change(object);
        object["metadata"]["deletionTimestamp"] = given::at(0).to_string().into();
    });
    let mut observed = world.observe();
    observed.as_of = given::at(minutes * 60);
    observed.objects.retain(|other, _| *other == key);
    observed.pods.clear();
    plan(&world.order, &observed, &given::proofs()).outcome
}

fn finalizers(names: &'static [&'static str]) -> impl Fn(&mut Value) {
    move |object| object["metadata"]["finalizers"] = json!(names)
}

#[test]
fn a_foreign_finalizer_blocks_a_deletion_after_five_minutes() {
    let Outcome::Waiting { on } =
        outcome_after(4, Kind::StatefulSet, finalizers(&["example.com/hold"]))
    else {
        unreachable!("four minutes should be waited for")
    };
    assert!(
        on.ends_with("to be gone: deletion blocked by foreign finalizer `example.com/hold`"),
        "{on}"
    );
    let many = finalizers(&["example.com/a", "example.com/b"]);
    let Outcome::Blocked { why } = outcome_after(6, Kind::StatefulSet, many) else {
        unreachable!("six minutes are too long")
    };
    assert!(
        why.contains("`example.com/a`, `example.com/b`") && why.contains("StatefulSet/"),
        "{why}"
    );
}

#[test]
fn finalizers_of_kubernetes_have_their_own_message() {
    let claim = outcome_after(
        1,
        Kind::PersistentVolumeClaim,
        finalizers(&["kubernetes.io/pvc-protection"]),
    );
    let Outcome::Waiting { on } = claim else { unreachable!("the claim should be waited for") };
    assert!(on.ends_with("a pod still uses it"), "{on}");
    let set = outcome_after(9, Kind::StatefulSet, finalizers(&["foregroundDeletion"]));
    let Outcome::Blocked { why } = set else { unreachable!("nine minutes are too long") };
    assert!(why.contains("its dependents are deleted first"), "{why}");
}

#[test]
fn a_terminating_pod_on_a_lost_node_blocks_after_five_minutes() {
    let mut world = World::service(given::template("web"), json!({"image": "a:1"}));
    world.desire(DesiredState::Deleted);
    let mut observed = world.observe();
    let pod = json!({
        "metadata": {"name": "web-1", "deletionTimestamp": given::at(0).to_string()},
        "spec": {"nodeName": "node-1"},
    });
    observed.pods = vec![std::sync::Arc::new(pod)];
    observed.objects.clear();
    let ends = |observed: &Observed| plan(&world.order, observed, &given::proofs()).outcome;
    observed.as_of = given::at(60);
    assert_eq!(ends(&observed), Outcome::Waiting { on: "1 pod to be gone".to_owned() });
    observed.as_of = given::at(6 * 60);
    let Outcome::Blocked { why } = ends(&observed) else {
        unreachable!("six minutes are too long")
    };
    assert!(why.contains("pod web-1") && why.contains("node node-1"), "{why}");
}

#[test]
fn a_remaining_volume_names_its_blocker() {
    let of = |policy: &str, phase: &str| {
        volume_left(&json!({
            "metadata": {"name": "pv-1"}, "spec": {"persistentVolumeReclaimPolicy": policy},
            "status": {"phase": phase, "message": "disk is busy"},
        }))
    };
    assert_eq!(
        of("Delete", "Released"),
        Outcome::Waiting { on: "PersistentVolume/pv-1 to be gone".to_owned() }
    );
    let Outcome::Blocked { why } = of("Delete", "Failed") else { unreachable!("it failed") };
    assert!(why.contains("disk is busy"), "{why}");
    let Outcome::Blocked { why } = of("Retain", "Released") else { unreachable!("it stays") };
    assert!(why.contains("Retain") && why.contains("delete the volume"), "{why}");
}
