//! Volumes that grow: claims are enlarged after everything else, and nothing is replaced.

use serde_json::{Value, json};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::report::{ObjectChange, Outcome};
use trueup_rules::plan::Action;

use crate::given;
use crate::world::{Pass, World};

const SIZE: &str = "/spec/resources/requests/storage";
const TEMPLATE: &str = "/spec/volumeClaimTemplates/0";

/// A running server whose next generation has another image and twice the disk.
fn growing() -> World {
    let mut world = World::service(given::template("minecraft"), json!({"world_gib": 10}));
    world.reconcile();
    world.server.catch_up();
    world.reconcile();
    let larger = json!({"world_gib": 20, "image": "itzg/minecraft-server:java25"});
    world.change(given::parameters(larger)).expect("a volume may grow");
    world
}

fn key_of(world: &World, kind: Kind) -> ResourceKey {
    world.server.objects.keys().find(|key| key.kind == kind).cloned().expect("an object")
}

fn size(world: &World) -> Option<&Value> {
    world.server.objects[&key_of(world, Kind::PersistentVolumeClaim)].pointer(SIZE)
}

/// The keys that the last step of a pass writes, each because the desired state changed.
fn last_writes(pass: &Pass) -> Vec<&ResourceKey> {
    let last = pass.rounds.last().into_iter().flatten();
    last.map(|action| match action {
        Action::Apply { key, change: ObjectChange::Updated { .. }, .. } => key,
        other => unreachable!("a write was expected, not {other:?}"),
    })
    .collect()
}

#[test]
fn a_claim_grows_after_the_workload_and_the_claim_template_keeps_its_size() {
    let mut world = growing();
    let (claim, set) =
        (key_of(&world, Kind::PersistentVolumeClaim), key_of(&world, Kind::StatefulSet));
    let uid = world.server.objects[&claim]["metadata"]["uid"].clone();
    let pass = world.reconcile();
    assert_eq!(pass.outcome, Outcome::Converged);
    assert_eq!(last_writes(&pass), [&claim]);
    assert_eq!(size(&world), Some(&json!("20Gi")));
    assert_eq!(world.server.objects[&claim]["metadata"]["uid"], uid);
    let set = &world.server.objects[&set];
    assert_eq!(set.pointer(&format!("{TEMPLATE}{SIZE}")), Some(&json!("10Gi")));
    assert_eq!(
        set["spec"]["template"]["spec"]["containers"][0]["image"],
        "itzg/minecraft-server:java25"
    );
    assert_eq!(world.plan().actions, [], "the kept size is no difference");
}

/// The API server refuses any change of a claim without a volume.
#[test]
fn an_unbound_claim_grows_once_it_is_bound() {
    let mut world = growing();
    let claim = key_of(&world, Kind::PersistentVolumeClaim);
    world.server.edit(&claim, |live| live["status"]["phase"] = json!("Pending"));
    assert_eq!(world.reconcile().outcome, Outcome::Converged);
    assert_eq!(size(&world), Some(&json!("10Gi")));
    world.server.edit(&claim, |live| live["status"]["phase"] = json!("Bound"));
    let pass = world.reconcile();
    assert_eq!(last_writes(&pass), [&claim]);
    assert_eq!(size(&world), Some(&json!("20Gi")));
}

#[test]
fn another_difference_in_a_claim_template_still_blocks() {
    let mut world = growing();
    let set = key_of(&world, Kind::StatefulSet);
    world.server.edit(&set, |live| {
        live["spec"]["volumeClaimTemplates"][0]["spec"]["accessModes"] = json!(["ReadWriteMany"]);
    });
    let Outcome::Blocked { why } = world.reconcile().outcome else {
        unreachable!("it should be blocked")
    };
    assert!(why.contains("spec.volumeClaimTemplates"), "{why}");
}

/// Pods must never be started on a foreign disk, however small.
#[test]
fn a_foreign_claim_blocks_before_the_workload_is_written() {
    let mut world = growing();
    let (claim, set) =
        (key_of(&world, Kind::PersistentVolumeClaim), key_of(&world, Kind::StatefulSet));
    let before = world.server.objects[&set].clone();
    world.server.edit(&claim, |live| {
        live["metadata"]["uid"] = json!("of-another");
        live["metadata"]["annotations"] = json!({});
    });
    let Outcome::Blocked { why } = world.reconcile().outcome else {
        unreachable!("it should be blocked")
    };
    assert!(why.contains("is not owned by Trueup"), "{why}");
    assert_eq!(world.server.objects[&set], before);
}
