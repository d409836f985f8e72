//! Plans under drift policies: what is reverted, what is kept, and what stands.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use trueup_model::drift::{
    AdoptMode, Divergence, DivergenceClass, DivergenceState, DriftPolicy, DriftRule, FIGHT_ROUNDS,
    FieldDecision, FieldRef, Verdict,
};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::report::{ObjectChange, Outcome};
use trueup_rules::compare::diff::first_difference;
use trueup_rules::plan::{Action, plan_after};

use crate::closed::{key_of, put, running};
use crate::properties::{edit, leaves, service, template, written};
use crate::world::{ROUNDS, World};
use crate::{given, seed};

const REPLICAS: &str = "spec.replicas";
const DEADLINE: &str = "spec.progressDeadlineSeconds";
const IMAGE: &str = "spec.template.spec.containers.main.image";

/// This verdict for these paths, and for nothing else.
fn verdict(verdict: Verdict, paths: &[&str]) -> DriftPolicy {
    let rule = |path: &&str| DriftRule { kind: None, path: Some((*path).to_owned()), verdict };
    DriftPolicy { rules: paths.iter().map(rule).collect(), ..DriftPolicy::default() }
}

/// A running web service under this policy.
fn web(policy: DriftPolicy) -> (World, ResourceKey) {
    let mut world = running("web");
    world.order.drift = given::drift(policy);
    let key = key_of(&world, Kind::Deployment);
    (world, key)
}

/// Scales the Deployment, changes its deadline and its image.
fn meddle(world: &mut World, key: &ResourceKey) {
    world.server.edit(key, |live| {
        put(live, "/spec/replicas", json!(5));
        put(live, "/spec/progressDeadlineSeconds", json!(9));
        put(live, "/spec/template/spec/containers/0/image", json!("evil:1"));
    });
}

/// Says that another manager wrote the replicas.
fn owned_by_kubectl(world: &mut World, key: &ResourceKey) {
    world.server.edit(key, |live| {
        live["metadata"]["managedFields"] =
            json!([{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
    });
}

/// The only write of a plan, and the fields that it reverts.
fn only_write(actions: &[Action]) -> (&Value, Vec<&Divergence>) {
    let [Action::Apply { object, change, .. }] = actions else {
        unreachable!("one write, not {actions:?}")
    };
    match change {
        ObjectChange::ModifiedExternally { fields, .. } => (object, fields.iter().collect()),
        ObjectChange::Created { .. }
        | ObjectChange::Updated { .. }
        | ObjectChange::Removed { .. }
        | ObjectChange::DeletedExternally { .. } => (object, Vec::new()),
    }
}

fn names<'a>(fields: impl IntoIterator<Item = &'a Divergence>) -> Vec<&'a str> {
    fields.into_iter().map(|one| one.field.as_str()).collect()
}

fn states(standing: &[Divergence]) -> Vec<(&str, DivergenceState)> {
    standing.iter().map(|one| (one.field.as_str(), one.state)).collect()
}

#[test]
fn every_edited_field_is_reverted_by_one_write_and_reported_with_its_values() {
    let (mut world, key) = web(DriftPolicy::default());
    meddle(&mut world, &key);
    let plan = world.plan();
    let (object, fields) = only_write(&plan.actions);
    assert_eq!(names(fields.iter().copied()), [DEADLINE, REPLICAS, IMAGE]);
    let expected = Divergence {
        key: key.clone(),
        field: DEADLINE.to_owned(),
        class: DivergenceClass::Edited,
        wanted: json!(600),
        live: json!(9),
        by: None,
        verdict: Verdict::Enforce,
        state: DivergenceState::Reverted,
    };
    assert_eq!(*fields[0], expected);
    assert_eq!(object["metadata"].get("resourceVersion"), None, "nothing is kept");
    let open = DivergenceState::Open;
    assert_eq!(states(&plan.standing), [(DEADLINE, open), (REPLICAS, open), (IMAGE, open)]);
    world.reconcile();
    assert_eq!(world.plan().standing, []);
}

#[test]
fn ignored_fields_stay_and_the_rest_is_reverted() {
    let (mut world, key) = web(verdict(Verdict::Ignore, &[REPLICAS, IMAGE]));
    meddle(&mut world, &key);
    let plan = world.plan();
    let (object, fields) = only_write(&plan.actions);
    assert_eq!(names(fields), [DEADLINE]);
    let live = &world.server.objects[&key];
    for guard in ["uid", "resourceVersion"] {
        assert_eq!(object["metadata"][guard], live["metadata"][guard], "{guard}");
    }
    let pass = world.reconcile();
    let ignored = DivergenceState::Ignored;
    assert_eq!(states(&pass.standing), [(REPLICAS, ignored), (IMAGE, ignored)]);
    let live = &world.server.objects[&key]["spec"];
    assert_eq!((&live["replicas"], &live["progressDeadlineSeconds"]), (&json!(5), &json!(600)));
    assert_eq!(live["template"]["spec"]["containers"][0]["image"], "evil:1");
    // Only kept differences are left: nothing is written.
    assert_eq!((world.plan().actions, pass.outcome), (vec![], Outcome::Converged));
}

#[test]
fn a_value_that_was_removed_stays_removed_if_it_is_ignored() {
    let (mut world, key) = web(verdict(Verdict::Ignore, &[DEADLINE]));
    world.server.edit(&key, |live| {
        live["spec"].as_object_mut().expect("a spec").remove("progressDeadlineSeconds");
        live["spec"]["replicas"] = json!(5);
    });
    let plan = world.plan();
    let (object, fields) = only_write(&plan.actions);
    assert_eq!(names(fields), [REPLICAS]);
    assert_eq!(object["spec"].get("progressDeadlineSeconds"), None);
    let pass = world.reconcile();
    assert_eq!((pass.standing[0].field.as_str(), &pass.standing[0].live), (DEADLINE, &Value::Null));
}

/// A missing map is one difference, unless a rule is about a part of it.
#[test]
fn a_missing_map_is_compared_by_its_parts_where_a_rule_is_about_one() {
    let rolling = "spec.strategy.rollingUpdate";
    let fields = |policy| {
        let (mut world, key) = web(policy);
        world.server.edit(&key, |live| {
            live["spec"].as_object_mut().expect("a spec").remove("strategy");
        });
        let plan = world.plan();
        let reverted = names(only_write(&plan.actions).1).join(" ");
        world.reconcile();
        let live = world.server.objects[&key]["spec"]["strategy"].clone();
        (reverted, live["type"].clone(), live["rollingUpdate"]["maxSurge"].clone())
    };
    let (roll, quarter) = (json!("RollingUpdate"), json!("25%"));
    let whole = ("spec.strategy".to_owned(), roll.clone(), quarter);
    assert_eq!(fields(DriftPolicy::default()), whole);
    let part = ("spec.strategy.type".to_owned(), roll, Value::Null);
    assert_eq!(fields(verdict(Verdict::Ignore, &[rolling])), part);
}

#[test]
fn an_ignored_addition_to_a_closed_path_is_not_pruned() {
    let mesh = "spec.template.spec.containers.mesh";
    let (mut world, key) = web(verdict(Verdict::Ignore, &[mesh]));
    world.server.edit(&key, |live| {
        for name in ["mesh", "miner"] {
            let container = json!({"name": name, "image": "x"});
            put(live, "/spec/template/spec/containers/-", container);
        }
    });
    let pass = world.reconcile();
    assert!(matches!(pass.rounds.concat().as_slice(), [Action::Prune { .. }]), "{pass:?}");
    assert_eq!(states(&pass.standing), [(mesh, DivergenceState::Ignored)]);
    assert_eq!(pass.standing[0].class, DivergenceClass::ForeignWriter);
    let live = world.server.objects[&key].pointer("/spec/template/spec/containers").cloned();
    let left = live.and_then(|list| list.as_array().cloned()).expect("containers");
    let left: Vec<_> = left.iter().map(|one| one["name"].as_str().unwrap_or_default()).collect();
    assert_eq!(left, ["main", "mesh"]);
}

#[test]
fn an_adopted_value_is_proposed_and_reverted_or_kept_as_its_mode_says() {
    for (mode, kept) in
        [(AdoptMode::Propose, false), (AdoptMode::Keep, true), (AdoptMode::Automatic, true)]
    {
        let policy = DriftPolicy { adopt: Some(mode), ..verdict(Verdict::Adopt, &[REPLICAS]) };
        let (mut world, key) = web(policy);
        world.server.edit(&key, |live| live["spec"]["replicas"] = json!(5));
        let plan = world.plan();
        assert_eq!(plan.actions.is_empty(), kept, "{mode}");
        if kept {
            assert_eq!(states(&plan.standing), [(REPLICAS, DivergenceState::Proposed)]);
        } else {
            assert_eq!(only_write(&plan.actions).1[0].verdict, Verdict::Adopt);
        }
    }
}

#[test]
fn a_field_in_conflict_is_left_alone_and_the_rest_is_enforced() {
    let (mut world, key) = web(DriftPolicy::default());
    let at = FieldRef { key: key.clone(), field: REPLICAS.to_owned() };
    world.order.drift.rounds.insert(at.clone(), vec![given::at(0); FIGHT_ROUNDS]);
    meddle(&mut world, &key);
    let pass = world.reconcile();
    assert_eq!(states(&pass.standing), [(REPLICAS, DivergenceState::InConflict)]);
    assert_eq!(world.server.objects[&key]["spec"]["replicas"], 5);
    assert_eq!(world.server.objects[&key]["spec"]["progressDeadlineSeconds"], 600);
    // A person decides for Trueup.
    world.order.drift.fields.insert(at, FieldDecision::Enforce { until: None });
    assert_eq!(world.reconcile().standing, []);
    assert_eq!(world.server.objects[&key]["spec"]["replicas"], 1);
}

#[test]
fn a_newer_generation_keeps_the_value_of_a_known_manager_only() {
    for (owned, expected) in [(true, json!(5)), (false, json!(1))] {
        let (mut world, key) = web(verdict(Verdict::Ignore, &[REPLICAS]));
        world.server.edit(&key, |live| live["spec"]["replicas"] = json!(5));
        if owned {
            owned_by_kubectl(&mut world, &key);
        }
        world.change(given::parameters(json!({"image": "image:1"}))).expect("an allowed change");
        world.reconcile();
        let live = &world.server.objects[&key]["spec"];
        assert_eq!(live["replicas"], expected, "owned: {owned}");
        assert_eq!(live["template"]["spec"]["containers"][0]["image"], "image:1");
    }
}

/// After an adoption both managers have the same value. A request to change it is no drift.
#[test]
fn a_value_that_the_former_order_wanted_is_ours_whoever_shares_it() {
    let policy =
        DriftPolicy { adopt: Some(AdoptMode::Automatic), ..verdict(Verdict::Adopt, &[REPLICAS]) };
    // A request comes after what other writers did before it, also if the former order is not known
    // after a restart.
    for (edited, known) in [(false, true), (true, true), (false, false), (true, false)] {
        let (mut world, key) = web(policy.clone());
        owned_by_kubectl(&mut world, &key);
        if edited {
            world.server.edit(&key, |live| live["spec"]["replicas"] = json!(7));
        }
        let former = world.order.clone();
        world.change(given::parameters(json!({"replicas": 3}))).expect("an allowed change");
        for _round in 0..ROUNDS {
            let observed = world.observe();
            let next =
                plan_after(known.then_some(&former), &world.order, &observed, &given::proofs());
            next.actions.iter().for_each(|action| world.act(action));
        }
        assert_eq!(
            world.server.objects[&key]["spec"]["replicas"], 3,
            "edited: {edited}, known: {known}"
        );
    }
}

#[test]
fn a_removed_label_or_a_forged_stamp_is_a_broken_proof_under_every_verdict() {
    let ignore_all = DriftPolicy { verdict: Some(Verdict::Ignore), ..DriftPolicy::default() };
    for policy in [DriftPolicy::default(), ignore_all] {
        let (mut world, key) = web(policy);
        world.server.edit(&key, |live| {
            live["metadata"]["labels"] = json!({});
            live["metadata"]["annotations"]["trueup.dev/digest"] = json!("0");
        });
        let plan = world.plan();
        let (_, fields) = only_write(&plan.actions);
        assert!(fields.len() > 2, "{fields:?}");
        assert!(fields.iter().all(|one| one.class == DivergenceClass::BrokenProof), "{fields:?}");
        assert_eq!(world.reconcile().standing, []);
    }
}

#[test]
fn a_deleted_object_stands_open_until_it_is_back() {
    let (mut world, _) =
        web(DriftPolicy { verdict: Some(Verdict::Ignore), ..DriftPolicy::default() });
    let service = key_of(&world, Kind::Service);
    // Uids are recorded when they are observed.
    world.observe();
    world.server.delete(&service);
    let plan = world.plan();
    let [gone] = plan.standing.as_slice() else { unreachable!("one, not {:?}", plan.standing) };
    assert_eq!((&gone.key, gone.field.as_str()), (&service, ""));
    assert_eq!((gone.class, gone.state), (DivergenceClass::Deleted, DivergenceState::Open));
    assert_eq!(world.reconcile().standing, []);
}

/// A later stage stands as well, although the plan is about an earlier one.
#[test]
fn everything_that_stands_is_known_in_every_plan() {
    let (mut world, key) = web(verdict(Verdict::Ignore, &[REPLICAS]));
    world.server.edit(&key, |live| live["spec"]["replicas"] = json!(5));
    let config =
        ResourceKey { name: format!("{}-config", key.name), ..key_of(&world, Kind::ConfigMap) };
    world.server.edit(&config, |live| live["data"]["EXTRA"] = json!("1"));
    let plan = world.plan();
    assert_eq!(plan.actions.len(), 1, "{plan:?}");
    let expected = [("data.EXTRA", DivergenceState::Open), (REPLICAS, DivergenceState::Ignored)];
    assert_eq!(states(&plan.standing), expected);
}

#[test]
fn values_of_a_secret_are_reported_as_digests() {
    let mut world = running("postgres");
    let key = key_of(&world, Kind::Secret);
    let name = world.server.objects[&key]["data"].as_object().expect("data").keys().next().cloned();
    let name = name.expect("a secret");
    let before = world.server.objects[&key]["data"][&name].clone();
    world.server.edit(&key, |live| live["data"][&name] = json!("aHVudGVyMg=="));
    let plan = world.plan();
    let (_, fields) = only_write(&plan.actions);
    let text = format!("{fields:?}");
    assert_eq!(fields[0].field, format!("data.{name}"));
    assert!(!text.contains("aHVudGVyMg"), "{text}");
    assert!(!text.contains(before.as_str().expect("a value")), "{text}");
    assert!(fields[0].wanted.is_string() && fields[0].wanted != fields[0].live, "{text}");
}

proptest! {
    #![proptest_config(seed::cases(64))]

    /// Under a policy to ignore everything, an edit stays as it is or is reverted as a whole, and
    /// the plan after it has no actions.
    #[test]
    fn an_ignored_edit_is_never_overwritten(
        template in template(),
        which in any::<Index>(),
        leaf in any::<Index>(),
        gone in any::<bool>(),
    ) {
        let mut world = service(template);
        let policy = DriftPolicy { verdict: Some(Verdict::Ignore), ..DriftPolicy::default() };
        world.order.drift = given::drift(policy);
        let written = written(&mut world);
        let (key, ours) = &written[which.index(written.len())];
        let all = leaves(key.kind, ours);
        let path = &all[leaf.index(all.len())];
        world.server.edit(key, |live| edit(live, path, gone));
        let edited = world.server.objects[key].clone();

        let pass = world.reconcile();
        prop_assert_eq!(&pass.outcome, &Outcome::Converged, "{} {}: {:?}", key, path, pass);
        if pass.standing.is_empty() {
            prop_assert_eq!(first_difference(ours, &world.server.objects[key]), None);
        } else {
            prop_assert_eq!(&world.server.objects[key], &edited, "{} {}: {:?}", key, path, pass);
        }
        prop_assert_eq!(world.plan().actions, []);
    }
}

/// A whole container is one difference: what it contains decides, whatever the policy says.
#[test]
fn an_added_container_is_removed_if_it_touches_security_or_secrets() {
    let ignore_all = DriftPolicy { verdict: Some(Verdict::Ignore), ..DriftPolicy::default() };
    for (field, stays) in [
        (json!({"securityContext": {"privileged": true}}), false),
        (json!({"envFrom": [{"secretRef": {"name": "theirs"}}]}), false),
        (json!({"ports": [{"containerPort": 80, "hostPort": 80}]}), false),
        (json!({"args": ["sleep"]}), true),
    ] {
        let (mut world, key) = web(ignore_all.clone());
        world.server.edit(&key, |live| {
            let mut added = field.clone();
            added["name"] = json!("evil");
            let containers = live["spec"]["template"]["spec"]["containers"].as_array_mut();
            containers.expect("containers").push(added);
        });
        world.reconcile();
        let live = &world.server.objects[&key]["spec"]["template"]["spec"]["containers"];
        let count = live.as_array().map(Vec::len);
        assert_eq!(count, Some(if stays { 2 } else { 1 }), "{field}");
    }
}

/// A name of a variable can be as long as an object; an index entry cannot.
#[test]
fn a_long_path_is_recorded_by_its_start_and_many_differences_by_the_first() {
    let (mut world, key) =
        web(verdict(Verdict::Ignore, &["spec.template.spec.containers.main.env"]));
    world.server.edit(&key, |live| {
        let name = "N".repeat(4000);
        let added = (0..300).map(|number| json!({"name": format!("A{number}"), "value": "1"}));
        let added = added.chain([json!({"name": name, "value": "1"})]).collect::<Vec<_>>();
        let main = &mut live["spec"]["template"]["spec"]["containers"][0];
        match main["env"].as_array_mut() {
            Some(env) => env.extend(added),
            None => main["env"] = added.into(),
        }
    });
    let plan = world.plan();
    assert_eq!(plan.actions, []);
    assert_eq!(plan.standing.len(), 100);
    assert!(plan.standing.iter().all(|one| one.field.len() <= 520));
}
