//! A cron's run of an earlier spec that never started does not block its corrected successors.

use serde_json::{Value, json};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::report::ObjectChange;
use trueup_rules::plan::Action;

use crate::given;
use crate::world::World;

/// A cron after its image was corrected, and a pod of its earlier spec.
fn corrected() -> (World, ResourceKey, Value) {
    let request = json!({"image": "report:1", "schedule": "@hourly"});
    let mut world = World::service(given::template("cron"), request);
    world.reconcile();
    let key = world.server.objects.keys().find(|key| key.kind == Kind::CronJob).cloned();
    let key = key.expect("a CronJob");
    let template = &world.server.objects[&key]["spec"]["jobTemplate"]["spec"]["template"];
    let pod = json!({
        "metadata": {"name": "report-1", "uid": "u"}, "spec": template["spec"],
        "status": {"phase": "Pending"},
    });
    world.change(given::parameters(json!({"image": "report:2"}))).expect("an allowed change");
    (world, key, pod)
}

#[test]
fn a_run_of_an_earlier_spec_is_replaced_only_if_it_never_started() {
    type Twist = fn(&mut Value);
    let table: [(&str, Twist, &str); 7] = [
        ("it waits for its image", |_| {}, "Replace"),
        ("nothing is known of it yet", |pod| pod["status"] = json!({}), "Replace"),
        ("it runs", |pod| pod["status"]["phase"] = json!("Running"), "Forbid"),
        ("it has ended", |pod| pod["status"]["phase"] = json!("Failed"), "Forbid"),
        ("it is being deleted", |pod| pod["metadata"]["deletionTimestamp"] = json!("x"), "Forbid"),
        (
            "it has the corrected image",
            |pod| pod["spec"]["containers"][0]["image"] = json!("report:2"),
            "Forbid",
        ),
        (
            "it has the corrected image and an earlier size",
            |pod| {
                pod["spec"]["containers"][0]["image"] = json!("report:2");
                pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!("99");
            },
            "Replace",
        ),
    ];
    for (what, twist, policy) in table {
        let (mut world, key, mut pod) = corrected();
        twist(&mut pod);
        world.server.pods = vec![pod];
        world.reconcile();
        let live = &world.server.objects[&key];
        assert_eq!(live["spec"]["concurrencyPolicy"], policy, "{what}");
        assert_eq!(world.plan().actions, [], "{what}");
    }
}

#[test]
fn runs_do_not_overlap_again_once_the_outdated_run_is_gone() {
    let (mut world, key, pod) = corrected();
    let mut running = pod.clone();
    running["status"]["phase"] = json!("Running");
    // A run that has started is never replaced, whatever else waits.
    world.server.pods = vec![pod.clone(), running];
    world.reconcile();
    assert_eq!(world.server.objects[&key]["spec"]["concurrencyPolicy"], "Forbid");
    for (pods, policy) in [(vec![pod], "Replace"), (vec![], "Forbid")] {
        world.server.pods = pods;
        let pass = world.reconcile();
        // It is our own update, not drift.
        assert_eq!(pass.rounds.len(), 1, "{pass:?}");
        let [Action::Apply { change, .. }] = pass.rounds[0].as_slice() else {
            unreachable!("one write is needed: {pass:?}")
        };
        assert_eq!(*change, ObjectChange::Updated { key: key.clone() });
        assert_eq!(world.server.objects[&key]["spec"]["concurrencyPolicy"], policy);
    }
}
