//! The pains of other platforms that concern drift, each tried on a real API server by a writer
//! outside of Trueup. The numbers are those of the list of pains; P10, and what a person sees of the
//! others, is in `trueup/tests/it/drift.rs`.
//!
//! Every outside write is checked by its response, and every outcome by another client.

mod held;
pub(crate) mod outside;
mod scene;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use trueup_cluster::Cluster;
use trueup_model::drift::{
    AdoptMode, Divergence, DivergenceClass, DivergenceState, DriftPolicy, FIGHT_ROUNDS,
    FieldDecision, FieldRef, Verdict,
};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_model::status::{Health, Reason, Reconciliation, Status};
use trueup_rules::render::names;
use trueup_rules::status::reconciliation;

use crate::causes::limit;
use crate::rig::{Rig, converged, key, web, with_receipt};
use crate::simulated::{self, Shown, is_well};
use held::{Held, Moment};
use outside::{MEDDLER, Outside, managers};
use scene::{REPLICAS, Scene, ignore_replicas, image, reverted, settled, standing, with_image};

const IMAGE: &str = "spec.template.spec.containers.main.image";
const HOUR: Duration = Duration::from_secs(3600);

fn policy(verdict: Verdict, adopt: Option<AdoptMode>) -> DriftPolicy {
    DriftPolicy { verdict: Some(verdict), adopt, rules: Vec::new() }
}

/// Whether a conflict stands, by the last observation.
fn in_conflict(shown: &Shown) -> bool {
    let mut seen = shown.seen.iter().flat_map(|seen| &seen.divergences);
    seen.any(|one| one.state == DivergenceState::InConflict)
}

#[tokio::test]
async fn p01_status_is_never_settled_while_a_conflict_stands() {
    let (cluster, outside) = Outside::real().await;
    let mut shown = Shown::start(&cluster).await;
    let mut order = shown.order_new(1, simulated::web("example:1")).await;
    shown.until(&order, is_well).await;
    let deployment = key(&order, Kind::Deployment, str::to_owned);
    while !in_conflict(&shown) {
        let live = outside.get(&deployment).await.expect("the Deployment should be there");
        if live["spec"]["replicas"] == 1 {
            outside.patch(&deployment, &json!({ "spec": { "replicas": 0 } })).await;
        }
        shown.until_seen(&order, |_| true).await;
    }
    let live = outside.get(&deployment).await.expect("the Deployment should be there");
    assert_eq!(live["spec"]["replicas"], 0, "the other writer's value stands");

    let is_down = |shown: &Shown| {
        let workload = shown.seen.as_ref().and_then(|seen| seen.workload.as_ref());
        workload.is_some_and(|seen| seen.existing == 0)
    };
    let mut life = vec![shown.status.clone()];
    if !is_down(&shown) {
        life.extend(shown.until_seen(&order, is_down).await);
    }
    for status in &life {
        let named = status.conditions.iter().any(|one| one.reason == Reason::InConflict);
        assert!(named, "{status:#?}");
        assert_eq!(reconciliation(status, 1, false), Reconciliation::Diverged, "{status:#?}");
    }
    assert_ne!(shown.status.health, Health::Healthy, "no pod is left: {:#?}", shown.status);

    let at = FieldRef { key: deployment.clone(), field: REPLICAS.to_owned() };
    order.drift.fields.insert(at, FieldDecision::Enforce { until: None });
    shown.order(&order).await;
    let is_over = |status: &Status| is_well(status) && status.conditions.is_empty();
    shown.until(&order, is_over).await;
    assert_eq!(reconciliation(&shown.status, 1, false), Reconciliation::Settled);
    shown.end(2).await;
}

/// Replaces an object of a service by a foreign one with our label, under this policy.
async fn spares_a_foreign_object(policy: DriftPolicy) {
    let mut scene = Scene::start(web(1), policy).await;
    let config = key(&scene.order, Kind::ConfigMap, names::config);
    scene.rig.fence.close();
    scene.outside.delete(&config).await;
    let foreign = json!({
        "metadata": { "labels": { names::MANAGED_BY: names::MANAGER } },
        "data": { "GREETING": "theirs" },
    });
    let theirs = Some(scene.outside.create(&config, &foreign).await);
    scene.rig.fence.open(scene.rig.clock.monotonic(), HOUR);

    // A decision about one of its fields is no right to the object.
    let at = FieldRef { key: config.clone(), field: "data.GREETING".to_owned() };
    scene.order.drift.fields.insert(at, FieldDecision::Enforce { until: None });
    let _passed = scene.rig.executor.order(scene.order.clone()).await;
    let report = scene.until(|report| matches!(report.outcome, Outcome::Blocked { .. })).await;
    let Outcome::Blocked { why } = &report.outcome else { unreachable!("as just awaited") };
    assert!(why.contains(&config.name), "{why}");
    assert_eq!(scene.outside.get(&config).await, theirs, "it is not taken over");

    let gone = Order { drift: scene.order.drift.clone(), ..scene.rig.gone(2, web(1)) };
    scene.rig.order_until(gone, with_receipt).await;
    assert_eq!(scene.outside.get(&config).await, theirs, "nor is it deleted");
}

#[tokio::test]
async fn p04_object_without_our_proof_is_never_deleted_or_taken_over_under_any_verdict() {
    join_all([
        spares_a_foreign_object(DriftPolicy::default()),
        spares_a_foreign_object(policy(Verdict::Adopt, Some(AdoptMode::Propose))),
        spares_a_foreign_object(policy(Verdict::Adopt, Some(AdoptMode::Keep))),
        spares_a_foreign_object(policy(Verdict::Adopt, Some(AdoptMode::Automatic))),
        spares_a_foreign_object(policy(Verdict::Ignore, None)),
    ])
    .await;
}

/// A writer who removes our marks from an object does not get it: not even a policy to ignore
/// everything applies to them.
#[tokio::test]
async fn p04_removed_marks_of_our_object_are_restored_under_every_verdict() {
    for policy in [DriftPolicy::default(), policy(Verdict::Ignore, None)] {
        let scene = Scene::start(web(1), policy).await;
        let before = scene.objects().await;
        let marks = json!({ "metadata": {
            "labels": { names::MANAGED_BY: null, names::SERVICE_LABEL: "theirs" },
            "annotations": { names::PROOF_ANNOTATION: null, names::DIGEST_ANNOTATION: "theirs" },
        } });
        let stored = scene.outside.patch(&scene.deployment(), &marks).await;
        assert_eq!(stored["metadata"]["labels"][names::MANAGED_BY], Value::Null);
        let is_ours = |live: &Value| {
            let labels = &live["metadata"]["labels"];
            let proof = &live["metadata"]["annotations"][names::PROOF_ANNOTATION];
            proof.is_string()
                && labels[names::MANAGED_BY] == names::MANAGER
                && labels[names::SERVICE_LABEL] == scene.order.unit.to_string()
        };
        scene.live_until(is_ours).await;
        scene.pass_quietly().await;
        assert_eq!(uncounted(scene.objects().await), uncounted(before));
    }
}

/// Objects without the number of their changes: an annotation counts for a Deployment.
fn uncounted(mut objects: BTreeMap<ResourceKey, Value>) -> BTreeMap<ResourceKey, Value> {
    for object in objects.values_mut() {
        object["metadata"]["generation"] = Value::Null;
    }
    objects
}

#[tokio::test]
async fn p05_a_fight_stops_and_names_both_writers() {
    let mut scene = Scene::start(web(2), DriftPolicy::default()).await;
    let conflict = scene.fight(5).await;
    assert_eq!((&conflict.wanted, &conflict.live), (&json!(2), &json!(5)));
    assert_eq!((conflict.by.as_deref(), conflict.verdict), (Some(MEDDLER), Verdict::Enforce));
    let live = scene.live().await;
    assert_eq!(managers(&live, &["f:spec", "f:replicas"]), [MEDDLER]);
    assert_eq!(managers(&live, &["f:spec", "f:template"]), [names::FIELD_MANAGER]);

    // Nothing is written any more, and the other writer may go on.
    scene.pass_quietly().await;
    assert_eq!(scene.live().await["metadata"]["generation"], live["metadata"]["generation"]);
    scene.scale(6).await;
    let at = scene.replicas();
    let report = scene.until(|it| standing(it, &at).is_some_and(|one| one.live == 6)).await;
    assert_eq!(standing(&report, &at).map(|one| one.state), Some(DivergenceState::InConflict));

    // The rest of the object is enforced as before.
    let containers = json!([{ "name": "main", "image": "evil:1" }]);
    let evil = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
    assert_eq!(image(&scene.outside.patch(&at.key, &evil).await), "evil:1");
    let edited = FieldRef { key: at.key.clone(), field: IMAGE.to_owned() };
    scene.until(|report| reverted(report, &edited).is_some()).await;
    scene.live_until(|live| image(live) == "example:1").await;
    assert_eq!(scene.live().await["spec"]["replicas"], 6);

    // Settled: ours. From now on rounds are not counted.
    scene.order.drift.fields.insert(at, FieldDecision::Enforce { until: None });
    let _passed = scene.rig.executor.order(scene.order.clone()).await;
    scene.live_until(|live| live["spec"]["replicas"] == 2).await;
    for _round in 0..=FIGHT_ROUNDS {
        scene.scale_in_vain(5).await;
    }
}

/// Another manager takes the field by server-side apply, which is how operators fight.
#[tokio::test]
async fn p05_field_that_is_taken_over_by_apply_is_taken_back_until_it_is_a_fight() {
    let mut scene = Scene::start(web(2), DriftPolicy::default()).await;
    let at = scene.replicas();
    let fields = json!({ "spec": { "replicas": 4 } });
    for _round in 0..FIGHT_ROUNDS {
        let stored = scene.outside.take_over(&at.key, &fields).await;
        assert_eq!(managers(&stored, &["f:spec", "f:replicas"]), [MEDDLER]);
        let report = scene.until(|report| reverted(report, &at).is_some()).await;
        let one = reverted(&report, &at).expect("it should be reported, as just awaited");
        assert_eq!(one.by.as_deref(), Some(MEDDLER));
        scene.live_until(|live| live["spec"]["replicas"] == 2).await;
    }
    scene.outside.take_over(&at.key, &fields).await;
    let conflict = scene.until_standing(DivergenceState::InConflict).await;
    assert_eq!((conflict.by.as_deref(), conflict.live), (Some(MEDDLER), json!(4)));
    scene.pass_quietly().await;
    assert_eq!(scene.live().await["spec"]["replicas"], 4);
}

#[tokio::test]
async fn p06_failed_repair_is_retried_after_its_cause_ends() {
    let mut scene = Scene::start(web(1), DriftPolicy::default()).await;
    let service = key(&scene.order, Kind::Service, str::to_owned);
    limit(scene.outside.client(), &scene.order.namespace, "services", "0").await;
    let is_refused = |report: &Report| matches!(&report.outcome, Outcome::Refused { why } if why.contains("exceeded quota"));
    let deleted = ObjectChange::DeletedExternally { key: service.clone() };
    let report = loop {
        // A quota is in force only after its controller has seen it: until then it is repaired.
        scene.outside.delete(&service).await;
        let seen =
            scene.until(|report| is_refused(report) || report.changes.contains(&deleted)).await;
        if is_refused(&seen) {
            break seen;
        }
    };
    let at = FieldRef { key: service.clone(), field: String::new() };
    let open = standing(&report, &at).expect("a failed repair should stand");
    assert_eq!((open.class, open.state), (DivergenceClass::Deleted, DivergenceState::Open));
    assert_eq!(scene.outside.get(&service).await, None);

    let quota = ResourceKey::new(Kind::ResourceQuota, &scene.order.namespace, "tight");
    scene.outside.delete(&quota).await;
    scene.outside.until(&service, |found| found.is_some()).await;
    scene.until(settled).await;
}

/// Edits a Deployment while a write of it is held.
async fn edit_during_a_pass(scene: &Scene, held: &Held, edit: &Value) {
    held.is_held().await;
    let stored = scene.outside.patch(&scene.deployment(), edit).await;
    assert_eq!(stored["spec"]["replicas"], edit["spec"]["replicas"]);
    held.release();
}

#[tokio::test]
async fn p08_edit_made_while_a_pass_runs_is_not_missed() {
    let (cluster, outside) = Outside::real().await;
    let held = Held::new(cluster);
    let cluster: Arc<dyn Cluster> = Arc::<Held>::clone(&held);
    let mut scene = Scene::on(cluster, outside, web(2), DriftPolicy::default()).await;
    // One change of a field that we set, and one addition, which an apply does not remove.
    let containers = json!([{ "name": "main", "env": [{ "name": "THEIRS", "value": "1" }] }]);
    let pods = json!({ "spec": { "containers": containers } });
    let edit = json!({ "spec": { "replicas": 7, "template": pods } });
    for moment in [Moment::Before, Moment::After] {
        let newest = format!("example:{moment:?}").to_lowercase();
        held.hold(moment);
        scene.change(with_image(2, &newest)).await;
        edit_during_a_pass(&scene, &held, &edit).await;
        let generation = scene.order.generation;
        scene.until(|report| report.generation == generation && settled(report)).await;
        scene.pass_quietly().await;
        let live = scene.live().await;
        assert_eq!((image(&live), &live["spec"]["replicas"]), (&json!(newest), &json!(2)));
        let env = &live["spec"]["template"]["spec"]["containers"][0]["env"];
        assert!(env.as_array().is_none_or(Vec::is_empty), "{env}");
    }
}

#[tokio::test]
async fn p08_ignored_edit_made_while_a_pass_runs_is_not_overwritten() {
    let (cluster, outside) = Outside::real().await;
    let held = Held::new(cluster);
    let cluster: Arc<dyn Cluster> = Arc::<Held>::clone(&held);
    let mut scene = Scene::on(cluster, outside, web(2), ignore_replicas()).await;
    let at = scene.replicas();
    for (moment, replicas) in [(Moment::Before, 3), (Moment::After, 4)] {
        let newest = format!("example:{moment:?}").to_lowercase();
        held.hold(moment);
        scene.change(with_image(2, &newest)).await;
        edit_during_a_pass(&scene, &held, &json!({ "spec": { "replicas": replicas } })).await;
        scene.live_until(|live| image(live) == newest.as_str()).await;
        let is = |one: &Divergence| one.state == DivergenceState::Ignored && one.live == replicas;
        scene.until(|report| converged(report) && standing(report, &at).is_some_and(is)).await;
        scene.pass_quietly().await;
        assert_eq!(scene.live().await["spec"]["replicas"], replicas);
    }
}

#[tokio::test]
async fn p11_restarted_executor_keeps_its_objects_and_the_conflict() {
    let mut scene = Scene::start(web(2), DriftPolicy::default()).await;
    scene.fight(3).await;
    let before = scene.objects().await;
    // As the database records it.
    let at = scene.replicas();
    scene.order.drift.fields.insert(at.clone(), FieldDecision::InConflict);
    let (scene, report) = scene.restart().await;
    assert_eq!(report.changes, [], "nothing is written, least of all created again");
    assert_eq!(standing(&report, &at).map(|one| one.state), Some(DivergenceState::InConflict));
    scene.pass_quietly().await;
    assert_eq!(scene.objects().await, before);
}

#[tokio::test]
async fn p11_rounds_of_a_fight_survive_a_restart() {
    let mut scene = Scene::start(web(2), DriftPolicy::default()).await;
    for _round in 0..FIGHT_ROUNDS {
        scene.scale_in_vain(3).await;
    }
    let rounds = vec![scene.rig.clock.now(); FIGHT_ROUNDS];
    let at = scene.replicas();
    scene.order.drift.rounds.insert(at, rounds);
    let (mut scene, _) = scene.restart().await;
    scene.scale(3).await;
    scene.until_standing(DivergenceState::InConflict).await;
    assert_eq!(scene.live().await["spec"]["replicas"], 3, "it is not reverted once more");
}

#[tokio::test]
async fn p14_preview_and_rollback_leave_ignored_drift_alone() {
    let mut scene = Scene::start(web(2), ignore_replicas()).await;
    scene.scale(4).await;
    scene.until_standing(DivergenceState::Ignored).await;

    let before = scene.objects().await;
    let next = Rig::after(&scene.order, scene.rig.service(2, with_image(2, "example:2")));
    let next = Order { drift: scene.order.drift.clone(), ..next };
    let preview = scene.rig.executor.dry_run(next).await.expect("the dry run should succeed");
    let deployment = scene.deployment();
    let changed = preview.objects.iter().find(|object| object.key == deployment);
    let fields = &changed.expect("the Deployment should be previewed").fields;
    let paths: Vec<&str> = fields.iter().map(|field| field.path.as_str()).collect();
    assert_eq!(paths, [IMAGE], "the preview shows what is written, and nothing else");
    assert_eq!(scene.objects().await, before, "a preview writes nothing");

    // Forward, and back to the first spec.
    for newest in ["example:2", "example:1"] {
        scene.change(with_image(2, newest)).await;
        let generation = scene.order.generation;
        scene.until(|report| report.generation == generation && converged(report)).await;
        let live = scene.live().await;
        assert_eq!((image(&live), &live["spec"]["replicas"]), (&json!(newest), &json!(4)));
    }

    // Without the policy the number of pods is ours again.
    scene.order.drift.policies.clear();
    scene.change(web(2)).await;
    scene.until(settled).await;
    assert_eq!(scene.live().await["spec"]["replicas"], 2);
}
