//! Sidecar injectors: the only writers that may add entries to our workloads.
//!
//! A name alone proves nothing, so an entry is kept only if the workload also has an annotation of
//! the injector. Most injectors change pods instead of workloads and do not appear here.

use serde_json::{Map, Value};

use crate::compare::path::{Path, PathSegment};

/// A known injector.
#[derive(Debug)]
pub struct Injector {
    /// Its name.
    pub name: &'static str,
    /// Prefixes of the annotations that it adds to the workload or its pods.
    pub annotations: &'static [&'static str],
    /// Prefixes of the names of its containers, volumes and variables.
    pub entries: &'static [&'static str],
}

/// The allowed injectors.
pub const INJECTORS: &[Injector] = &[
    Injector {
        name: "Istio",
        annotations: &["sidecar.istio.io/", "istio.io/"],
        entries: &["istio-", "workload-"],
    },
    Injector {
        name: "Linkerd",
        annotations: &["linkerd.io/", "config.linkerd.io/"],
        entries: &["linkerd-"],
    },
    Injector {
        name: "Vault",
        annotations: &["vault.hashicorp.com/"],
        entries: &["vault-agent", "home-init", "home-sidecar", "vault-secrets"],
    },
    Injector {
        name: "Reloader",
        annotations: &["reloader.stakater.com/", "configmap.reloader.stakater.com/"],
        entries: &["STAKATER_"],
    },
];

/// The lists that an injector may add to. Owners of an object are never among them.
const LISTS: [&str; 4] = ["initContainers", "containers", "volumes", "env"];

/// Whether this foreign list entry belongs to an allowed injector.
pub(crate) fn allows(live: &Value, list: &Path<'_>, entry: &Value) -> bool {
    let Some(PathSegment::Field(field)) = list.0.last() else { return false };
    let Some(name) = entry["name"].as_str().filter(|_| LISTS.contains(field)) else {
        return false;
    };
    INJECTORS
        .iter()
        .filter(|injector| injector.entries.iter().any(|prefix| name.starts_with(prefix)))
        .any(|injector| has_annotation(live, injector))
}

fn has_annotation(live: &Value, injector: &Injector) -> bool {
    ["", "/spec/template", "/spec/jobTemplate/spec/template"].iter().any(|place| {
        live.pointer(&format!("{place}/metadata/annotations"))
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(Map::keys)
            .any(|name| injector.annotations.iter().any(|prefix| name.starts_with(prefix)))
    })
}
