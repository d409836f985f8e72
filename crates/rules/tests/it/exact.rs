//! Exact previews: dry runs, assumed writes and preconditions.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;
use trueup_model::preview_request::{ExactPreview, ExactVerb, Standing};
use trueup_model::service::Service;
use trueup_rules::plan::Observed;
use trueup_rules::preview::digest;
use trueup_rules::preview::exact::{DryRunPass, Next, Tries, Write, hash, holds};

use crate::given;

type World = BTreeMap<ResourceKey, Arc<Value>>;

fn web(parameters: Value) -> Service {
    given::accepted(&given::template("web"), parameters)
}

fn observed(objects: &World) -> Observed {
    Observed { objects: objects.clone(), project_ready: true, ..Observed::default() }
}

/// Dry-runs on a server that accepts every write; also returns the objects it would store.
fn dry_run(order: Order, world: &World, refuses: Option<Kind>) -> (ExactPreview, World) {
    let (mut pass, mut made) = (DryRunPass::new(order, observed(world)), world.clone());
    for _round in 0..24 {
        let drafts = match pass.next(&given::proofs()) {
            Next::Over(plan) => return (plan, made),
            Next::Try(drafts) => drafts,
        };
        for draft in drafts {
            let (Write::Make(object) | Write::Apply(object) | Write::Patch(object)) = &draft.write;
            let mut stored = object.clone();
            stored["metadata"]["uid"] = json!(draft.key.to_string());
            let tries = if Some(draft.key.kind) == refuses {
                Tries::Refused("no".to_owned())
            } else {
                Tries::Stored(stored.clone())
            };
            made.insert(draft.key.clone(), Arc::new(stored));
            pass.take(draft, tries);
        }
    }
    unreachable!("a dry run should end")
}

fn summary(plan: &ExactPreview) -> Vec<String> {
    let objects = plan.objects.iter();
    objects.map(|object| format!("{:?} {}", object.verb, object.key.kind)).collect()
}

#[test]
fn a_new_service_is_dry_run_by_stages_without_preconditions() {
    let (plan, made) = dry_run(given::order(&web(json!({"image": "shop:1"}))), &World::new(), None);
    let objects = [
        "Create ConfigMap",
        "Create ConfigMap",
        "Create Secret",
        "Create Deployment",
        "Create Service",
    ];
    assert_eq!(summary(&plan), objects);
    assert_eq!(plan.stops, None);
    assert!(plan.footing.iter().all(|at| at.uid.is_none() && at.fields.is_empty()));
    // A dry run on the result has nothing left to do.
    let (again, _) = dry_run(given::order(&web(json!({"image": "shop:1"}))), &made, None);
    assert!(again.objects.iter().all(|object| object.verb == ExactVerb::Keep), "{again:#?}");
    assert!(again.footing.is_empty());
}

#[test]
fn a_refused_object_is_reported_and_the_rest_still_dry_run() {
    let order = given::order(&web(json!({"image": "shop:1"})));
    for kind in [Kind::ConfigMap, Kind::Secret, Kind::Service, Kind::Deployment] {
        let (plan, _) = dry_run(order.clone(), &World::new(), Some(kind));
        assert_eq!(plan.objects.len(), 5, "{plan:#?}");
        for object in &plan.objects {
            assert_eq!(object.refused.is_some(), object.key.kind == kind, "{object:?}");
        }
    }
}

/// A running service, its next generation, and the exact preview of it.
fn changed() -> (Order, World, ExactPreview) {
    let service = web(json!({"image": "shop:1"}));
    let (_, world) = dry_run(given::order(&service), &World::new(), None);
    let next = Service { generation: 2, ..web(json!({"image": "shop:2", "replicas": 1})) };
    let order = given::order(&next);
    let (plan, _) = dry_run(order.clone(), &world, None);
    (order, world, plan)
}

#[test]
fn an_update_depends_on_the_values_that_it_changes() {
    let (order, world, plan) = changed();
    let image: Vec<String> =
        "spec.template.spec.containers.main.image".split('.').map(str::to_owned).collect();
    let deployment = plan.footing.iter().find(|at| at.key.kind == Kind::Deployment);
    let deployment = deployment.expect("the Deployment should change");
    assert_eq!(deployment.fields.iter().map(|(at, _)| at).collect::<Vec<_>>(), [&image]);
    let holds = |world: &World| holds(&plan.footing, order.unit, world, &given::proofs());
    assert_eq!(holds(&world), Ok(()));

    let key = &deployment.key;
    let edited = |edit: fn(&mut Value)| {
        let mut world = world.clone();
        let mut object = (*world[key]).clone();
        edit(&mut object);
        world.insert(key.clone(), Arc::new(object));
        holds(&world)
    };
    let says = |words: &str| Err(format!("{key} {words}"));
    assert_eq!(edited(|it| it["status"] = json!({"replicas": 9})), Ok(()));
    assert_eq!(edited(|it| it["metadata"]["resourceVersion"] = json!("99")), Ok(()));
    assert_eq!(edited(|it| it["spec"]["replicas"] = json!(9)), Ok(()), "it is not touched");
    assert_eq!(edited(|it| it["metadata"]["uid"] = json!("other")), says("was recreated"));
    assert_eq!(
        edited(|it| it["spec"]["template"]["spec"]["containers"][0]["image"] = json!("evil:1")),
        says("changed: spec.template.spec.containers.main.image has another value")
    );
    let mut without = world.clone();
    without.remove(key);
    assert_eq!(holds(&without), says("no longer exists"));
}

#[test]
fn an_object_to_create_must_not_exist() {
    let (plan, made) = dry_run(given::order(&web(json!({"image": "shop:1"}))), &World::new(), None);
    let unit = given::order(&web(json!({"image": "shop:1"}))).unit;
    assert_eq!(holds(&plan.footing, unit, &World::new(), &given::proofs()), Ok(()));
    let why = holds(&plan.footing, unit, &made, &given::proofs()).expect_err("it is there");
    assert!(why.ends_with("exists now"), "{why}");
}

#[test]
fn the_hash_covers_every_precondition() {
    let (_, _, plan) = changed();
    let one = hash("digest", 2, &plan.footing);
    assert_eq!(one, hash("digest", 2, &plan.footing));
    let other = |edit: fn(&mut Standing)| {
        let mut footing = plan.footing.clone();
        footing.iter_mut().filter(|at| at.key.kind == Kind::Deployment).for_each(edit);
        hash("digest", 2, &footing)
    };
    let all = [
        one,
        hash("other", 2, &plan.footing),
        hash("digest", 3, &plan.footing),
        hash("digest", 2, &[]),
        other(|at| at.uid = None),
        other(|at| at.fields.clear()),
        other(|at| at.fields[0].1.push('x')),
        other(|at| at.key.name.push('x')),
    ];
    let different: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!(different.len(), all.len());
}

#[test]
fn a_digest_covers_the_rendered_objects_only() {
    let plain = |service: &Service| Order::of_service(service.clone(), "shop-1".to_owned());
    let one = digest(&plain(&web(json!({"image": "shop:1"}))));
    let later = Service { generation: 7, ..web(json!({"image": "shop:1"})) };
    assert_eq!(digest(&plain(&later)), one);
    assert_ne!(digest(&plain(&web(json!({"image": "shop:2"})))), one);
    let with = web(json!({"image": "shop:1", "variables": {"A": "1"}}));
    assert_ne!(digest(&plain(&with)), one);
    let elsewhere = Order::of_service(web(json!({"image": "shop:1"})), "shop-2".to_owned());
    assert_ne!(digest(&elsewhere), one);
}
