//! What blocks a deletion is named, and a person is asked only when it lasts.

use serde_json::{Value, json};
use trueup_model::key::Kind;
use trueup_model::report::Outcome;
use trueup_model::service::DesiredState;
use trueup_rules::plan::{Observed, plan, volume_left};

use crate::given;
use crate::world::World;

/// A service that is being deleted, with this done to one of its objects, so many minutes ago.
fn held(minutes: i64, kind: Kind, change: impl Fn(&mut Value)) -> Outcome {
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
    let mut observed = world.look();
    observed.as_of = given::at(minutes * 60);
    observed.objects.retain(|other, _| *other == key);
    observed.pods.clear();
    plan(&world.order, &observed, &given::proofs()).outcome
}

fn finalizers(names: &'static [&'static str]) -> impl Fn(&mut Value) {
    move |object| object["metadata"]["finalizers"] = json!(names)
}

#[test]
fn a_foreign_finalizer_is_waited_for_and_then_needs_a_person() {
    let Outcome::Waiting { on } = held(4, Kind::StatefulSet, finalizers(&["example.com/hold"]))
    else {
        unreachable!("four minutes are waited for")
    };
    assert!(
        on.ends_with("to be gone: the finalizer `example.com/hold` of somebody else holds it"),
        "{on}"
    );
    let many = finalizers(&["example.com/a", "example.com/b"]);
    let Outcome::Blocked { why } = held(6, Kind::StatefulSet, many) else {
        unreachable!("six minutes are too long")
    };
    assert!(
        why.contains("`example.com/a`, `example.com/b`") && why.contains("StatefulSet/"),
        "{why}"
    );
}

#[test]
fn what_kubernetes_itself_holds_is_said_in_its_words() {
    let claim = held(1, Kind::PersistentVolumeClaim, finalizers(&["kubernetes.io/pvc-protection"]));
    let Outcome::Waiting { on } = claim else { unreachable!("a pod goes by itself") };
    assert!(on.ends_with("a pod still uses it"), "{on}");
    let set = held(9, Kind::StatefulSet, finalizers(&["foregroundDeletion"]));
    let Outcome::Blocked { why } = set else { unreachable!("nine minutes are too long") };
    assert!(why.contains("what it owns goes first"), "{why}");
}

#[test]
fn a_pod_on_a_lost_node_needs_a_person() {
    let mut world = World::service(given::template("web"), json!({"image": "a:1"}));
    world.desire(DesiredState::Deleted);
    let mut observed = world.look();
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
    let Outcome::Blocked { why } = ends(&observed) else { unreachable!("it is overdue") };
    assert!(why.contains("pod web-1") && why.contains("node node-1"), "{why}");
}

#[test]
fn a_volume_says_why_it_stays() {
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
