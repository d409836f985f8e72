//! Properties: after any history, planning converges, stays inside its keys, and then has no
//! actions.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use trueup_model::id::ServiceId;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::name::Name;
use trueup_model::report::Outcome;
use trueup_model::service::DesiredState;
use trueup_rules::compare::diff::first_difference;
use trueup_rules::plan::Action;
use trueup_rules::render;
use trueup_rules::render::names;

use crate::world::World;
use crate::{given, seed};

/// One event in the history of a service.
#[derive(Debug, Clone)]
enum Event {
    /// A user changes the image.
    Change(u8),
    /// A user pauses or resumes it.
    Desire(DesiredState),
    /// The executor crashes after so many writes of one round.
    Crash(Index),
    /// The executor reconciles.
    Reconcile,
    /// Another writer deletes an object.
    Delete(Index),
    /// Another writer changes or removes a field that we own.
    Edit(Index, Index, bool),
    /// The controllers catch up.
    CatchUp,
    /// The driver issues the order again.
    Reissue,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        any::<u8>().prop_map(Event::Change),
        prop::sample::select(vec![DesiredState::Active, DesiredState::Paused])
            .prop_map(Event::Desire),
        any::<Index>().prop_map(Event::Crash),
        Just(Event::Reconcile),
        any::<Index>().prop_map(Event::Delete),
        any::<(Index, Index, bool)>()
            .prop_map(|(object, leaf, gone)| Event::Edit(object, leaf, gone)),
        Just(Event::CatchUp),
        Just(Event::Reissue),
    ]
}

pub(crate) fn template() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["web", "worker", "minecraft", "cron", "gpu-job"])
}

fn request(template: &str) -> Value {
    let mut parameters = json!({"image": "image:0"});
    if template == "cron" {
        parameters["schedule"] = json!("@hourly");
    }
    parameters
}

pub(crate) fn service(template: &str) -> World {
    World::service(given::template(template), request(template))
}

fn perform(world: &mut World, event: &Event) {
    match event {
        Event::Change(image) => {
            let image = json!({"image": format!("image:{image}")});
            world.change(given::parameters(image)).expect("a change that is allowed");
        }
        Event::Desire(desired) => world.desire(*desired),
        Event::Crash(after) => {
            let actions = world.plan().actions;
            if !actions.is_empty() {
                for action in &actions[..after.index(actions.len())] {
                    world.act(action);
                }
            }
            // The next executor observes at once: an object whose proof is removed before its uid
            // is recorded is lost.
            world.observe();
        }
        Event::Reconcile => {
            world.reconcile();
        }
        Event::Delete(which) => {
            // A deleted claim waits for its pod, which is a scenario of its own.
            let key = pick(world, which).filter(|key| key.kind != Kind::PersistentVolumeClaim);
            if let Some(key) = key {
                world.server.delete(&key);
            }
        }
        Event::Edit(which, leaf, gone) => {
            if let Some(key) = pick(world, which) {
                // The leaf may be ours or the server's.
                let all = leaves(key.kind, &world.server.objects[&key]);
                let path = &all[leaf.index(all.len())];
                // A foreign finalizer would block for ever.
                if *gone || !path.starts_with("/metadata/finalizers") {
                    world.server.edit(&key, |live| edit(live, path, *gone));
                }
            }
        }
        Event::CatchUp => world.server.catch_up(),
        Event::Reissue => world.reissue(),
    }
}

fn pick(world: &World, which: &Index) -> Option<ResourceKey> {
    let keys: Vec<_> = world.server.objects.keys().collect();
    (!keys.is_empty()).then(|| keys[which.index(keys.len())].clone())
}

/// Reconciles, and returns the objects that this wrote.
pub(crate) fn written(world: &mut World) -> Vec<(ResourceKey, Value)> {
    let actions = world.reconcile().rounds.into_iter().flatten();
    actions
        .filter_map(|action| match action {
            Action::Apply { key, object, .. } => Some((key, object)),
            Action::Prune { .. }
            | Action::Delete { .. }
            | Action::ReleaseAnchor { .. }
            | Action::VerifyAbsence => None,
        })
        .collect()
}

/// The pointers of all leaves that another writer can change: neither identity nor immutable
/// fields.
pub(crate) fn leaves(kind: Kind, object: &Value) -> Vec<String> {
    fn walk(value: &Value, path: &str, found: &mut Vec<String>) {
        let step = |name: &str| format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    walk(value, &step(name), found);
                }
            }
            Value::Array(list) => {
                for (index, value) in list.iter().enumerate() {
                    walk(value, &step(&index.to_string()), found);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                found.push(path.to_owned());
            }
        }
    }
    let fixed = [
        "/apiVersion",
        "/kind",
        "/metadata/name",
        "/metadata/namespace",
        "/metadata/uid",
        "/metadata/resourceVersion",
        "/metadata/generation",
        "/metadata/deletionTimestamp",
    ];
    let immutable: &[&str] = match kind {
        Kind::Deployment => &["/spec/selector"],
        Kind::StatefulSet => &[
            "/spec/selector",
            "/spec/serviceName",
            "/spec/podManagementPolicy",
            "/spec/volumeClaimTemplates",
        ],
        Kind::Job => &["/spec/template", "/spec/completions", "/spec/completionMode"],
        Kind::PersistentVolumeClaim => &["/spec/accessModes"],
        Kind::Secret => &["/type"],
        _ => &[],
    };
    let mut found = Vec::new();
    walk(object, "", &mut found);
    found.retain(|path| !fixed.contains(&path.as_str()));
    found.retain(|path| !immutable.iter().any(|start| path.starts_with(start)));
    found
}

/// Gives a leaf another value of its type, or removes it.
pub(crate) fn edit(object: &mut Value, path: &str, gone: bool) {
    let (parent, last) = path.rsplit_once('/').expect("a pointer");
    let last = last.replace("~1", "/").replace("~0", "~");
    match object.pointer_mut(parent) {
        Some(Value::Object(map)) if gone => {
            map.remove(&last);
        }
        Some(Value::Array(list)) if gone => {
            list.remove(last.parse().expect("an index"));
        }
        _ => {
            let leaf = object.pointer_mut(path).expect("a leaf");
            *leaf = match &*leaf {
                Value::Bool(truth) => json!(!truth),
                Value::Number(number) => json!(number.as_i64().unwrap_or(0) + 1),
                Value::String(text) => json!(format!("{text}-edited")),
                Value::Null | Value::Array(_) | Value::Object(_) => json!("edited"),
            };
        }
    }
}

fn name() -> impl Strategy<Value = Name> {
    let tricky = "(a|b|data|a-anchor|a-config|a-secret|a-00000001|data-a|a-1){1,2}";
    let free = "[a-z][a-z0-9-]{0,20}[a-z0-9]";
    prop_oneof![tricky, free].prop_filter_map("a valid name", |text| text.parse().ok())
}

/// Every key that a service of this name and id may write.
fn keys(template: &str, name: &Name, id: u128) -> Vec<ResourceKey> {
    let mut accepted = given::accepted(&given::template(template), request(template));
    accepted.object_name =
        names::object_name(name, ServiceId::from_uuid(uuid::Uuid::from_u128(id)));
    render::keys(&given::order(&accepted)).into_iter().collect()
}

proptest! {
    #![proptest_config(seed::cases(64))]

    #[test]
    fn planning_converges_and_then_has_no_actions(
        template in template(),
        events in prop::collection::vec(event(), 0..14),
    ) {
        let mut world = service(template);
        for event in &events {
            perform(&mut world, event);
        }
        world.reissue();
        // `reconcile` itself fails after eight rounds, and on a key outside of the order.
        let pass = world.reconcile();
        prop_assert_eq!(pass.outcome, Outcome::Converged);
        let quiet = world.plan();
        prop_assert_eq!(quiet.actions, []);
        prop_assert_eq!(quiet.outcome, Outcome::Converged);
    }

    #[test]
    fn a_deletion_ends_in_verified_absence_after_any_history(
        template in template(),
        events in prop::collection::vec(event(), 0..14),
    ) {
        let mut world = service(template);
        for event in &events {
            perform(&mut world, event);
        }
        world.desire(DesiredState::Deleted);
        world.reconcile();
        world.server.catch_up();
        let pass = world.reconcile();
        prop_assert!(pass.absent, "{:?}", pass);
        prop_assert_eq!(&world.server.objects, &BTreeMap::new());
    }

    #[test]
    fn an_edit_of_any_field_we_own_is_reverted_in_one_round(
        template in template(),
        which in any::<Index>(),
        leaf in any::<Index>(),
        gone in any::<bool>(),
    ) {
        let mut world = service(template);
        let written = written(&mut world);
        let (key, ours) = &written[which.index(written.len())];
        let all = leaves(key.kind, ours);
        let path = &all[leaf.index(all.len())];
        let live = &world.server.objects[key];
        prop_assert!(live.pointer(path).is_some(), "{} has no {}", key, path);
        world.server.edit(key, |live| edit(live, path, gone));

        let pass = world.reconcile();
        prop_assert_eq!(pass.rounds.len(), 1, "{} {}: {:?}", key, path, pass);
        prop_assert_eq!(pass.rounds[0].len(), 1);
        prop_assert_eq!(first_difference(ours, &world.server.objects[key]), None);
        prop_assert_eq!(world.plan().actions, []);
    }

    #[test]
    fn no_key_belongs_to_two_services(
        one in (template(), name(), 0..3_u128),
        other in (template(), name(), 0..3_u128),
    ) {
        prop_assume!((&one.1, one.2) != (&other.1, other.2));
        let keys = |(template, name, id): &(&str, Name, u128)| keys(template, name, *id);
        let (of_a, of_b) = (keys(&one), keys(&other));
        prop_assert!(of_a.iter().all(|key| !of_b.contains(key)), "{:?} and {:?}", of_a, of_b);
    }
}

#[test]
fn nothing_is_written_for_an_order_whose_keys_were_not_recorded() {
    let mut world = World::service(given::template("web"), json!({"image": "a"}));
    world.order.recorded.clear();
    let plan = world.plan();
    assert_eq!(plan.actions, []);
    let on = "an order that names the next anchor".to_owned();
    assert_eq!(plan.outcome, Outcome::Waiting { on });
}
