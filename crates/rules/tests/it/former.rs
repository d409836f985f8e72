//! Objects of earlier generations that are no longer wanted are deleted; data stays.

use serde_json::json;
use trueup_model::key::Kind;
use trueup_model::order::Body;
use trueup_model::report::Outcome;
use trueup_rules::plan::Action;

use crate::given;
use crate::world::World;

/// A running service whose next generation has no ports.
fn without_ports() -> World {
    let mut world = World::service(given::template("redis"), json!({}));
    world.reconcile();
    world.server.catch_up();
    world.reconcile();
    world.order.generation = 2;
    if let Body::Service(body) = &mut world.order.body {
        body.spec.ports.clear();
        body.spec.probe = None;
    }
    world.order = given::recorded(world.order);
    world
}

#[test]
fn an_unwanted_service_object_is_removed() {
    let mut world = without_ports();
    let pass = world.reconcile();
    assert_eq!(pass.outcome, Outcome::Converged);
    let gone: Vec<Kind> = pass
        .rounds
        .iter()
        .flatten()
        .filter_map(|action| match action {
            Action::Delete { key, .. } => Some(key.kind),
            Action::Apply { .. }
            | Action::Prune { .. }
            | Action::ReleaseAnchor { .. }
            | Action::VerifyAbsence => None,
        })
        .collect();
    assert_eq!(gone, [Kind::Service]);
    let kinds: Vec<Kind> = world.server.objects.keys().map(|key| key.kind).collect();
    assert!(kinds.contains(&Kind::PersistentVolumeClaim) && !kinds.contains(&Kind::Service));
    assert_eq!(world.plan().actions, [], "and then there are no actions");
}

#[test]
fn an_unwanted_object_is_deleted_only_with_a_record() {
    let mut world = without_ports();
    world.order.permit.unwanted.clear();
    let pass = world.reconcile();
    let deletes = |action: &&Action| matches!(action, Action::Delete { .. });
    assert_eq!(pass.rounds.iter().flatten().find(deletes), None);
    assert_eq!(world.plan().actions, []);
    let service = world.server.objects.keys().find(|key| key.kind == Kind::Service).cloned();
    let service = service.expect("a Service");
    world.order.permit.unwanted.insert(service.clone(), 3);
    assert_eq!(world.plan().actions, [], "a later generation's record does not count for this one");
    world.order.permit.unwanted.insert(service, 2);
    assert!(matches!(world.plan().actions.as_slice(), [Action::Delete { .. }]));
}

#[test]
fn a_foreign_replacement_is_kept() {
    let mut world = without_ports();
    let key = world.server.objects.keys().find(|key| key.kind == Kind::Service).cloned();
    let key = key.expect("a Service");
    world.server.delete(&key);
    world.server.edit(&key, |theirs| theirs["spec"] = json!({"clusterIP": "10.0.0.9"}));
    let pass = world.reconcile();
    assert_eq!(pass.outcome, Outcome::Converged);
    assert!(world.server.objects.contains_key(&key));
}
