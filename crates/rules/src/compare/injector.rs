//! Who may add entries of their own to our workloads: the injectors that operators install.
//!
//! A name alone proves nothing, so an entry is left alone only if the workload also carries an
//! annotation of the injector's own. Most injectors change pods and not workloads, and are never
//! seen here at all.

use serde_json::{Map, Value};

use crate::compare::path::{Path, PathSegment};

/// One injector that is known by default.
#[derive(Debug)]
pub struct Injector {
    /// What it is called.
    pub name: &'static str,
    /// Annotations of the workload or of its pods that begin like this say that it was here.
    pub annotations: &'static [&'static str],
    /// Containers, volumes and variables whose names begin like this are its own.
    pub entries: &'static [&'static str],
}

/// The injectors that are let in.
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

/// Whether this foreign entry of the list at this place is one of an injector's.
pub(crate) fn allows(live: &Value, list: &Path<'_>, entry: &Value) -> bool {
    let Some(PathSegment::Field(field)) = list.0.last() else { return false };
    let Some(name) = entry["name"].as_str().filter(|_| LISTS.contains(field)) else {
        return false;
    };
    INJECTORS
        .iter()
        .filter(|injector| injector.entries.iter().any(|prefix| name.starts_with(prefix)))
        .any(|injector| was_here(live, injector))
}

fn was_here(live: &Value, injector: &Injector) -> bool {
    ["", "/spec/template", "/spec/jobTemplate/spec/template"].iter().any(|place| {
        live.pointer(&format!("{place}/metadata/annotations"))
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(Map::keys)
            .any(|name| injector.annotations.iter().any(|prefix| name.starts_with(prefix)))
    })
}
