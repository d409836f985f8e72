//! Runs a scenario script: each line is echoed and executed, and its result is printed.

use serde_json::{Map, Value, json};
use trueup_model::drift::{DriftPolicy, DriftRule};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Body;
use trueup_model::service::DesiredState;
use trueup_rules::admit::{Admitted, Refused};
use trueup_rules::render;
use trueup_rules::render::names;

use crate::given;
use crate::transcript::{self, line, name};
use crate::world::World;

/// Runs a script and returns its output.
pub(crate) fn play(script: &str) -> String {
    let mut output = String::new();
    let mut world = None;
    for command in script.lines().map(str::trim) {
        if command.is_empty() || command.starts_with('#') {
            line(&mut output, command);
            continue;
        }
        line(&mut output, &format!("> {command}"));
        let words: Vec<&str> = command.split_whitespace().collect();
        match (&mut world, words.as_slice()) {
            (world, ["declare", "project"]) => *world = Some(World::project()),
            (world, ["declare", template, given @ ..]) => {
                let template = given::template(template);
                *world = Some(World::service(template, Value::Object(parameters(given))));
            }
            (Some(world), words) => output.push_str(&perform(world, words)),
            (None, words) => unreachable!("a script begins with `declare`, not {words:?}"),
        }
    }
    output
}

fn perform(world: &mut World, words: &[&str]) -> String {
    match words {
        ["change", given @ ..] => return change(world, parameters(given)),
        ["pause"] => world.desire(DesiredState::Paused),
        ["resume"] => world.desire(DesiredState::Active),
        ["delete"] => world.desire(DesiredState::Deleted),
        ["verdict", verdict, path] => {
            let verdict = verdict.parse().expect("a verdict");
            let rule = DriftRule { kind: None, path: Some((*path).to_owned()), verdict };
            let policy = DriftPolicy { rules: vec![rule], ..DriftPolicy::default() };
            world.order.drift = given::drift(policy);
        }
        ["freeze"] => world.order.freeze = Some(given::freeze()),
        ["unfreeze"] => world.order.freeze = None,
        ["reconcile"] => {
            let pass = world.reconcile();
            return transcript::pass(&pass) + &transcript::status(&world.status);
        }
        ["it", "runs"] => {
            world.reconcile();
            world.server.catch_up();
            world.reconcile();
            return transcript::status(&world.status);
        }
        ["show", object, path] => {
            let key = key(world, object);
            let value = slot(world.server.objects.entry(key.clone()).or_default(), path).clone();
            return format!("  {} has {path} = {value}\n", name(&key));
        }
        ["the", "driver", "issues", "the", "order", "again"] => world.reissue(),
        ["the", "project", "is", "not", "ready"] => world.project_ready = false,
        ["the", "project", "is", "ready"] => {
            world.project_ready = true;
            world.server.namespace_ending = false;
        }
        ["the", "cluster", "catches", "up"] => world.server.catch_up(),
        ["the", "namespace", "is", "being", "deleted"] => {
            world.project_ready = false;
            world.server.delete_namespace();
        }
        ["another", "writer", edit @ ..] => another_writer(world, edit),
        other => unreachable!("unknown command {other:?}"),
    }
    String::new()
}

/// External changes to the cluster.
fn another_writer(world: &mut World, edit: &[&str]) {
    match edit {
        ["sets", object, path, value] => {
            let key = key(world, object);
            let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
            world.server.edit(&key, |live| *slot(live, path) = value);
        }
        ["called", manager, "sets", object, path, value] => {
            another_writer(world, &["sets", *object, *path, *value]);
            let key = key(world, object);
            world.server.edit(&key, |live| {
                let owned = path
                    .rsplit('.')
                    .fold(json!({}), |below, step| json!({ (format!("f:{step}")): below }));
                live["metadata"]["managedFields"] =
                    json!([{ "manager": manager, "fieldsV1": owned }]);
            });
        }
        ["deletes", object] => {
            let key = key(world, object);
            world.server.delete(&key);
        }
        ["creates", object] => {
            let key = key(world, object);
            world.server.edit(&key, |_| {});
        }
        ["removes", "labels", "and", "proof", "of", object] => {
            let key = key(world, object);
            world.server.edit(&key, |live| {
                live["metadata"]["labels"] = json!({});
                live["metadata"]["annotations"] = json!({});
            });
        }
        ["adds", "the", "container", name, "to", object] => {
            let key = key(world, object);
            world.server.edit(&key, |live| {
                let containers = live["spec"]["template"]["spec"]["containers"].as_array_mut();
                let sidecar = json!({"name": name, "image": "mesh:1"});
                containers.expect("containers").insert(0, sidecar);
            });
        }
        ["marks", "the", "pods", "of", object, "as", "handled", "by", annotation] => {
            let key = key(world, object);
            world.server.edit(&key, |live| {
                live["spec"]["template"]["metadata"]["annotations"][annotation] = json!("enabled");
            });
        }
        ["changes", "the", "port", "of", object] => {
            let key = key(world, object);
            world.server.edit(&key, |live| live["spec"]["ports"][0]["port"] = json!(9999));
        }
        ["forges", "the", "digest", "of", object] => {
            let key = key(world, object);
            world.server.edit(&key, |live| {
                let stamp = &mut live["metadata"]["annotations"][names::DIGEST_ANNOTATION];
                *stamp = json!("0".repeat(24));
            });
        }
        other => unreachable!("unknown external change {other:?}"),
    }
}

fn change(world: &mut World, given: Map<String, Value>) -> String {
    match world.change(given) {
        Ok(Admitted::Unchanged) => "  unchanged\n".to_owned(),
        Ok(Admitted::Changed(_)) => {
            format!("  accepted as generation {}\n", world.order.generation)
        }
        Err(Refused::BeingDeleted) => "  refused: the service is being deleted\n".to_owned(),
        Err(Refused::Invalid(errors)) => errors
            .iter()
            .map(|error| format!("  refused: {} {}\n", error.field, error.message))
            .collect(),
    }
}

/// `name=value` words as parameters; `variables.NAME=value` goes into a map.
fn parameters(words: &[&str]) -> Map<String, Value> {
    let mut given = json!({});
    for word in words {
        let (path, value) = word.split_once('=').expect("name=value");
        let value = value.parse::<i64>().map_or_else(|_| json!(value), |n| json!(n));
        *slot(&mut given, path) = value;
    }
    given::parameters(given)
}

/// The value at a dotted path; list entries are addressed by name.
fn slot<'a>(value: &'a mut Value, path: &str) -> &'a mut Value {
    // `§` stands for a dot inside of a name.
    path.split('.').fold(value, |value, step| match value {
        Value::Array(list) => {
            list.iter_mut().find(|entry| entry["name"] == step).expect("an entry with this name")
        }
        other => &mut other[step.replace('§', ".").as_str()],
    })
}

/// The key for a script's name of an object.
fn key(world: &World, word: &str) -> ResourceKey {
    let at = |kind, name: &str| ResourceKey::new(kind, &world.order.namespace, name);
    let base = match &world.order.body {
        Body::Project => &world.order.namespace,
        Body::Service(body) => &body.object_name,
    };
    match word.split_once('-') {
        Some(("anchor", ordinal)) => {
            let ordinal = ordinal.parse().expect("an ordinal");
            at(Kind::ConfigMap, &names::anchor(base, ordinal))
        }
        _ => match word {
            "config" => at(Kind::ConfigMap, &names::config(base)),
            "secret" => at(Kind::Secret, &names::secret(base)),
            "claim" => at(Kind::PersistentVolumeClaim, &names::claim(base, 0)),
            "deployment" => at(Kind::Deployment, base),
            "statefulset" => at(Kind::StatefulSet, base),
            "cronjob" => at(Kind::CronJob, base),
            "job" => match &world.order.body {
                Body::Project => unreachable!("a project has no workload"),
                Body::Service(body) => render::workload_key(&world.order, body),
            },
            "service" => at(Kind::Service, base),
            "namespace" => at(Kind::Namespace, base),
            "quota" => at(Kind::ResourceQuota, "trueup"),
            other => unreachable!("unknown object {other}"),
        },
    }
}
