//! The externally visible result of a run, without what differs in every run: ids, uids, times and
//! values derived from the install's master key.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trueup_api::service::Service;
use trueup_cluster::kube::Kube;
use trueup_cluster::{Cluster, Scope};
use trueup_model::key::Kind;

use crate::tally::{Counts, kinds};

/// The result of one run.
#[derive(Debug)]
pub(crate) struct RunResult {
    /// All objects while the service was healthy.
    pub(crate) alive: BTreeMap<String, Value>,
    /// All objects after its deletion.
    pub(crate) gone: BTreeMap<String, Value>,
    /// The service in the API at both times.
    pub(crate) shown: [Value; 2],
    /// How often each object was created and deleted.
    pub(crate) counts: Counts,
}

impl RunResult {
    /// The lines that differ between two runs.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let (here, there) = (self.lines(), other.lines());
        let only_here = here.iter().filter(|line| !there.contains(line));
        let only_there = there.iter().filter(|line| !here.contains(line));
        only_here
            .map(|line| format!("now: {line}"))
            .chain(only_there.map(|line| format!("before: {line}")))
            .collect()
    }

    fn lines(&self) -> Vec<String> {
        let objects = |when: &str, objects: &BTreeMap<String, Value>| {
            objects
                .iter()
                .map(|(key, object)| format!("{when}: {key}: {object}"))
                .collect::<Vec<_>>()
        };
        let mut lines = objects("alive", &self.alive);
        lines.extend(objects("gone", &self.gone));
        lines.extend(self.shown.iter().map(|shown| format!("shown: {shown}")));
        lines.extend(self.counts.iter().map(|(key, (created, deleted))| {
            format!("{key}: {created} created, {deleted} deleted")
        }));
        lines
    }
}

/// All of Trueup's objects in the service's namespace, by kind and name.
pub(crate) async fn objects(kube: &Kube, service: &Service) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for kind in kinds().filter(|kind| *kind != Kind::Pod) {
        for object in kube.list(kind, Scope::Ours).await.unwrap().objects {
            let metadata = &object["metadata"];
            let place = if kind == Kind::Namespace { "name" } else { "namespace" };
            if metadata[place] == service.namespace.as_str() {
                let name = normalise(metadata["name"].as_str().unwrap(), service);
                found.insert(format!("{kind} {name}"), plain(&object, service));
            }
        }
    }
    found
}

/// An object without generated values. Annotations and secrets depend on the install's master key,
/// so only their names are compared.
fn plain(object: &Value, service: &Service) -> Value {
    let mut object = object.clone();
    let fields = object.as_object_mut().unwrap();
    fields.remove("status");
    if fields["kind"] == "Secret" {
        mask(&mut fields["data"]);
    }
    if let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
        if let Some(template) = spec.get_mut("template") {
            mask(&mut template["metadata"]["annotations"]);
        }
    }
    let metadata = fields["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"] {
        metadata.remove(field);
    }
    for owner in
        metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten()
    {
        owner["uid"] = Value::Null;
    }
    if let Some(annotations) = metadata.get_mut("annotations") {
        mask(annotations);
    }
    serde_json::from_str(&normalise(&object.to_string(), service)).unwrap()
}

fn mask(values: &mut Value) {
    for value in values.as_object_mut().into_iter().flat_map(serde_json::Map::values_mut) {
        *value = Value::Null;
    }
}

/// Text without ids and the random suffixes of names.
pub(crate) fn normalise(text: &str, service: &Service) -> String {
    let text = text
        .replace(&service.namespace, "NAMESPACE")
        .replace(&service.object_name, "OBJECT")
        .replace(&service.id, "SERVICE");
    without_ids(if is_pod(&text) { "OBJECT-POD".to_owned() } else { text })
}

/// Pod names end in two random parts of Kubernetes' alphabet: the hash of the template (up to ten
/// characters) and five characters of the pod itself.
fn is_pod(name: &str) -> bool {
    const ALPHABET: &str = "bcdfghjklmnpqrstvwxz2456789";
    let random = |part: &str| !part.is_empty() && part.chars().all(|one| ALPHABET.contains(one));
    name.strip_prefix("OBJECT-")
        .and_then(|rest| rest.split_once('-'))
        .is_some_and(|(set, pod)| random(set) && random(pod) && pod.len() == 5)
}

fn without_ids(mut text: String) -> String {
    for prefix in ["org_", "prj_"] {
        while let Some(at) = text.find(prefix) {
            let end = text[at + 4..].find(|c: char| !c.is_ascii_alphanumeric());
            let end = end.map_or(text.len(), |end| at + 4 + end);
            text.replace_range(at..end, "ID");
        }
    }
    text
}

/// The service in the API, without ids and times.
pub(crate) fn shown(service: &Service) -> Value {
    let objects: Vec<Value> = service
        .objects
        .iter()
        .map(|one| json!([one.kind, normalise(&one.name, service), one.uid.is_some()]))
        .collect();
    let absent: Vec<Value> = service
        .receipt
        .iter()
        .flat_map(|receipt| &receipt.absent)
        .map(|one| json!([one.key.kind, normalise(&one.key.name, service), one.uid.is_some()]))
        .collect();
    json!({
        "desired": service.desired, "generation": service.generation,
        "reconciliation": service.reconciliation, "phase": service.status.phase,
        "health": service.status.health, "applied": service.status.applied_generation,
        "conditions": service.status.conditions.len(), "objects": objects, "absent": absent,
    })
}
