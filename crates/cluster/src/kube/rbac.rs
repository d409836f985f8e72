//! Trueup's RBAC objects: two service accounts and their roles, generated from the list of kinds.
//!
//! One account lists and watches and cannot write; the other reads single objects and writes and
//! cannot list. Neither has cluster-wide access to secrets: a RoleBinding in each project's
//! namespace lets the writer read and write the secrets there, and list everything there before the
//! namespace is deleted. An admission policy limits the writer to the namespaces of projects
//! (`writer_policy`). `deploy/rbac.yaml` is the output of [`manifest`].

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};
use trueup_model::key::Kind;
use trueup_rules::render::names::{SECRETS_ROLE, SYSTEM_NAMESPACE, WATCHER, WRITER};

use super::writer_policy;

const GROUP: &str = "rbac.authorization.k8s.io";

/// All objects that Trueup's own accounts need.
#[must_use]
pub fn objects() -> Vec<Value> {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE },
    });
    let mut objects = vec![namespace, account(WATCHER), account(WRITER)];
    objects.extend([role(WATCHER, &watcher()), role(WRITER, &writer())]);
    let secrets = rule("", &[Kind::Secret.plural()], &WRITES);
    // Before a namespace is deleted, everything in it is listed, including unknown kinds.
    let everything = rule("*", &["*"], &["list"]);
    let in_projects = role(SECRETS_ROLE, &[secrets, everything]);
    objects.extend([in_projects, binding(WATCHER), binding(WRITER)]);
    objects.extend(writer_policy::objects());
    objects
}

/// The objects as YAML for `kubectl apply -f`.
#[must_use]
pub fn manifest() -> String {
    let heading =
        "# Generated from the list of kinds; a test keeps it up to date. See docs/adr/0020.\n";
    let mut text = heading.to_owned();
    for object in objects() {
        text.push_str("---\n");
        print(&object, 0, &mut text);
    }
    text
}

const WRITES: [&str; 4] = ["get", "create", "patch", "delete"];

fn watcher() -> Vec<Value> {
    let followed = Kind::WATCHED.into_iter().chain(Kind::BESIDE);
    let mut rules = by_group(followed, &["list", "watch"]);
    rules.push(rule("", &["pods/log"], &["get"]));
    rules
}

fn writer() -> Vec<Value> {
    let written = Kind::WATCHED.into_iter().filter(|kind| *kind != Kind::Pod);
    let mut rules = by_group(written, &WRITES);
    rules.push(rule("", &[Kind::Pod.plural()], &["get"]));
    // Lets the writer bind this one role to itself in a project, and no other role.
    let mut bind = rule(GROUP, &["clusterroles"], &["bind"]);
    bind["resourceNames"] = json!([SECRETS_ROLE]);
    rules.push(bind);
    rules
}

/// A rule for each API group of these kinds.
fn by_group(kinds: impl Iterator<Item = Kind>, verbs: &[&str]) -> Vec<Value> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for kind in kinds {
        groups.entry(kind.group()).or_default().push(kind.plural());
    }
    groups.into_iter().map(|(group, kinds)| rule(group, &kinds, verbs)).collect()
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

fn account(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": name, "namespace": SYSTEM_NAMESPACE },
        "automountServiceAccountToken": false,
    })
}

fn role(name: &str, rules: &[Value]) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole",
        "metadata": { "name": name }, "rules": rules,
    })
}

fn binding(name: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding",
        "metadata": { "name": name },
        "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": SYSTEM_NAMESPACE }],
    })
}

/// The API path of one of these objects.
pub(super) fn path(object: &Value) -> String {
    let text = |place: &str| object.pointer(place).and_then(Value::as_str).unwrap_or_default();
    let name = text("/metadata/name");
    match text("/kind") {
        "Namespace" => format!("/api/v1/namespaces/{name}"),
        "ServiceAccount" => format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts/{name}"),
        "ClusterRole" => format!("/apis/{GROUP}/v1/clusterroles/{name}"),
        "ValidatingAdmissionPolicy" => {
            format!("/apis/{}/v1/validatingadmissionpolicies/{name}", writer_policy::GROUP)
        }
        "ValidatingAdmissionPolicyBinding" => {
            format!("/apis/{}/v1/validatingadmissionpolicybindings/{name}", writer_policy::GROUP)
        }
        kind => format!("/apis/{GROUP}/v1/{}s/{name}", kind.to_lowercase()),
    }
}

/// Prints YAML of maps, lists and strings.
fn print(value: &Value, indent: usize, text: &mut String) {
    let space = " ".repeat(indent);
    // Writing into a String cannot fail.
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if value.is_object() || (value.is_array() && !is_flat(value)) {
                    writeln!(text, "{space}{name}:").ok();
                    print(value, indent + 2, text);
                } else {
                    writeln!(text, "{space}{name}: {value}").ok();
                }
            }
        }
        Value::Array(list) => {
            for entry in list {
                let mut inner = String::new();
                print(entry, indent + 2, &mut inner);
                writeln!(text, "{space}- {}", inner.trim()).ok();
            }
        }
        word => {
            writeln!(text, "{space}{word}").ok();
        }
    }
}

/// Whether a list has only strings, and is printed on one line.
fn is_flat(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.iter().all(Value::is_string))
}
