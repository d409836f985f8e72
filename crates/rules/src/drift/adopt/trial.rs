//! Renders a service as it would be with other parameters, and compares.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Map, Value};
use trueup_model::drift::Divergence;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Body, Order};
use trueup_model::service::Service;
use trueup_model::spec::{MAX_PODS, Spec};
use trueup_model::template::Template;

use super::AdoptContext;
use crate::admit::template::unchecked;
use crate::admit::variable::merge;
use crate::drift::decide::covers;
use crate::preview::{ObjectDiff, Verb, changes};
use crate::render;
use crate::render::proof::ProofKey;

/// Whether the live value is the desired one already.
pub(super) fn is_desired(divergence: &Divergence, context: AdoptContext<'_>) -> bool {
    renders(divergence, &context.current.spec, context)
}

/// Whether the desired value is the one that the difference was recorded with, if it had one.
pub(super) fn is_current(divergence: &Divergence, context: AdoptContext<'_>) -> bool {
    if divergence.wanted.is_null() {
        return true;
    }
    let object = object(&divergence.key, &context.current.spec, context);
    object.is_some_and(|object| {
        *at(&object, &divergence.field).unwrap_or(&Value::Null) == divergence.wanted
    })
}

/// Whether the object has exactly the live value at the field, with these parameters.
///
/// They need not be admissible: a value that is out of bounds is found here, too, so that a refusal
/// can name the bound.
pub(super) fn sets(
    divergence: &Divergence,
    template: &Template,
    parameters: &Map<String, Value>,
    context: AdoptContext<'_>,
) -> bool {
    let Some(resolved) = unchecked(template, parameters) else { return false };
    let now = &context.current.spec;
    // As in an admission: these come from the plan and from earlier operations.
    let spec = Spec {
        resources: now.resources.clone(),
        plan: now.plan.clone(),
        nodes: now.nodes.clone(),
        restart: now.restart,
        ..resolved
    };
    renders(divergence, &spec, context)
}

/// Whether this spec is rendered with the live value at the field.
fn renders(divergence: &Divergence, spec: &Spec, context: AdoptContext<'_>) -> bool {
    let Some(object) = object(&divergence.key, spec, context) else { return false };
    *at(&object, &divergence.field).unwrap_or(&Value::Null) == divergence.live
}

/// What an admitted spec changes besides the field and what follows from it.
pub(super) fn other_changes(
    divergence: &Divergence,
    spec: &Spec,
    context: AdoptContext<'_>,
) -> Vec<String> {
    let namespace = &divergence.key.namespace;
    let before = order(&context.current.spec, namespace, context);
    let after = order(spec, namespace, context);
    changes(Some(&before), &after).iter().flat_map(|diff| others(diff, divergence)).collect()
}

fn others(diff: &ObjectDiff, divergence: &Divergence) -> Vec<String> {
    let object = format!("{}/{}", diff.key.kind, diff.key.name);
    let changes_pods =
        divergence.field == "spec.replicas" || divergence.key.kind == Kind::HorizontalPodAutoscaler;
    match (diff.verb, diff.key.kind) {
        (Verb::Update, _) => {
            let paths = diff.fields.iter().map(|change| change.path.as_str());
            paths
                .filter(|path| !follows(&diff.key, path, divergence))
                .map(|path| format!("`{path}` of {object}"))
                .collect()
        }
        // There is a budget only for several pods, and a claim for each pod.
        (Verb::Create | Verb::Delete, Kind::PodDisruptionBudget)
        | (Verb::Create, Kind::PersistentVolumeClaim)
            if changes_pods =>
        {
            Vec::new()
        }
        (Verb::Create | Verb::Delete, _) => vec![object],
    }
}

/// Whether a field is the adopted one, contains it, is inside of it, or follows from it.
fn follows(key: &ResourceKey, path: &str, divergence: &Divergence) -> bool {
    let field = divergence.field.as_str();
    if *key == divergence.key {
        let pull_policy = field.strip_suffix(".image").map(|it| format!("{it}.imagePullPolicy"));
        return covers(path, field)
            || covers(field, path)
            || pull_policy.is_some_and(|pull_policy| pull_policy == path);
    }
    // No claim is created from the claim templates.
    divergence.key.kind == Kind::PersistentVolumeClaim && covers("spec.volumeClaimTemplates", path)
}

/// One object as rendered from this spec.
fn object(key: &ResourceKey, spec: &Spec, context: AdoptContext<'_>) -> Option<Value> {
    let order = order(spec, &key.namespace, context);
    let Body::Service(body) = &order.body else { return None };
    // Neither the owner nor the proofs are compared.
    let (owner, proofs) =
        (OwnerReference::default(), ProofKey::new(&[0; 32], context.current.cluster));
    let rendered = if key.kind.is_workload() {
        vec![render::service_workload(&order, body, &owner, &proofs)]
    } else if spec.replicas <= MAX_PODS {
        let mut all = render::service_prerequisites(&order, body, &owner, &proofs);
        all.extend(render::service_companions(&order, body, &owner, &proofs));
        all
    } else {
        // There is an object for each pod: an unchecked number could be billions.
        Vec::new()
    };
    rendered.into_iter().find(|one| one.key == *key).map(|one| one.object)
}

/// The order for this spec, with the variables that its containers read.
fn order(spec: &Spec, namespace: &str, context: AdoptContext<'_>) -> Order {
    let service = Service { spec: spec.clone(), ..context.current.clone() };
    let mut order = Order::of_service(service, namespace.to_owned());
    if let Body::Service(body) = &mut order.body {
        let (project, service) = (context.project_entries, context.service_entries);
        (body.spec.variables, body.sealed) = merge(&body.spec, project, service);
    }
    order
}

/// The value at a path as it is shown: names of fields, which may have dots, and names or numbers
/// of entries.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    if path.is_empty() {
        return Some(value);
    }
    match value {
        Value::Object(fields) => fields.iter().find_map(|(name, below)| {
            let rest = path.strip_prefix(name.as_str())?;
            if rest.is_empty() { Some(below) } else { at(below, rest.strip_prefix('.')?) }
        }),
        Value::Array(entries) => {
            let (first, rest) = path.split_once('.').unwrap_or((path, ""));
            let named = entries.iter().find(|entry| entry["name"] == first);
            let entry = named.or_else(|| entries.get(first.parse::<usize>().ok()?))?;
            at(entry, rest)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_shown_path_leads_to_its_value() {
        let object = json!({
            "spec": {"c": [{"name": "main", "args": ["a", "b"]}], "replicas": 2},
            "data": {"a.b": "1", "a": "2"},
        });
        let table = [
            ("spec.replicas", json!(2)),
            ("spec.c.main.args.1", json!("b")),
            ("spec.c.0.args", json!(["a", "b"])),
            ("data.a.b", json!("1")),
            ("data.a", json!("2")),
            ("spec.c.side", json!(null)),
            ("spec.replicas.more", json!(null)),
        ];
        for (path, expected) in table {
            assert_eq!(at(&object, path).cloned().unwrap_or_default(), expected, "{path}");
        }
    }
}
