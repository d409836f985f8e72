//! Fields that no policy can leave to other writers.
//!
//! They carry ownership, isolation between projects, or the security of pods. A writer who could
//! change them for good could take objects from Trueup or leave their project.

use serde_json::Value;
use trueup_model::key::Kind;

use super::paths::pod_template;
use crate::compare::closed::OWN_PREFIX;
use crate::drift::decide::covers;
use crate::render::names;

const OWNERSHIP: &str = "it says which objects and pods belong to the service";
const ISOLATION: &str = "it isolates projects from each other";
const NODES: &str = "the plan decides on which nodes pods run";
const SECURITY: &str = "it limits what a container may do";
const SECRETS: &str = "it holds secret values; `trueup secret set` changes them";
const HOSTS: &str = "only verified hosts are routed; `trueup domain add` adds one";
const REACHABLE: &str = "endpoints and domains decide what is reachable from outside";

/// Why a field is always enforced, if it is; an empty field stands for the whole object.
#[must_use]
pub fn is_protected(kind: Kind, field: &str) -> Option<&'static str> {
    of_metadata(field)
        .or_else(|| of_kind(kind))
        .or_else(|| of_pods(kind, field))
        .or_else(|| find(own_fields(kind), field))
}

/// Kinds that are protected as a whole.
const fn of_kind(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Namespace
        | Kind::ResourceQuota
        | Kind::LimitRange
        | Kind::NetworkPolicy
        | Kind::ServiceAccount
        | Kind::RoleBinding => Some(ISOLATION),
        Kind::Secret => Some(SECRETS),
        Kind::ConfigMap
        | Kind::PersistentVolumeClaim
        | Kind::Deployment
        | Kind::StatefulSet
        | Kind::CronJob
        | Kind::Job
        | Kind::Service
        | Kind::PodDisruptionBudget
        | Kind::HorizontalPodAutoscaler
        | Kind::Ingress
        | Kind::HttpRoute
        | Kind::Certificate
        | Kind::ServiceMonitor
        | Kind::Pod
        | Kind::PersistentVolume
        | Kind::Node => None,
    }
}

/// Whether a field says that an object is ours: owners, finalizers, and our labels and annotations,
/// among them the proof and the stamp.
pub(crate) fn is_ownership(field: &str) -> bool {
    let name = ["metadata.labels.", "metadata.annotations."]
        .into_iter()
        .find_map(|prefix| field.strip_prefix(prefix));
    name.is_some_and(|name| name.starts_with(OWN_PREFIX) || name == names::MANAGED_BY)
        || covers("metadata.ownerReferences", field)
        || covers("metadata.finalizers", field)
}

fn of_metadata(field: &str) -> Option<&'static str> {
    is_ownership(field).then_some(OWNERSHIP)
}

/// Whether something inside of this value is always enforced. A whole container or volume is one
/// difference, and what it contains decides.
pub(crate) fn holds_protected(kind: Kind, path: &str, value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, below)| {
            let path = format!("{path}.{name}");
            is_protected(kind, &path).is_some() || holds_protected(kind, &path, below)
        }),
        Value::Array(list) => list.iter().any(|below| holds_protected(kind, path, below)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Fields of a pod template.
fn of_pods(kind: Kind, field: &str) -> Option<&'static str> {
    if let Some(job) = field.strip_prefix("spec.jobTemplate.")
        && let Some(why) = of_metadata(job)
    {
        return Some(why);
    }
    let inside = field.strip_prefix(pod_template(kind)?)?.strip_prefix('.')?;
    let mut segments = inside.split('.');
    if segments.clone().any(|segment| segment == "securityContext") {
        return Some(SECURITY);
    }
    if segments.clone().any(|segment| segment == "secretRef" || segment == "secretKeyRef") {
        return Some(SECRETS);
    }
    if segments.any(|segment| segment == "hostPort" || segment == "hostIP") {
        return Some(ISOLATION);
    }
    of_metadata(inside).or_else(|| find(&POD, inside))
}

const POD: [(&str, &str); 15] = [
    ("spec.serviceAccountName", ISOLATION),
    ("spec.serviceAccount", ISOLATION),
    ("spec.automountServiceAccountToken", ISOLATION),
    ("spec.hostNetwork", ISOLATION),
    ("spec.hostPID", ISOLATION),
    ("spec.hostIPC", ISOLATION),
    ("spec.hostUsers", ISOLATION),
    ("spec.hostAliases", ISOLATION),
    ("spec.shareProcessNamespace", ISOLATION),
    ("spec.nodeSelector", NODES),
    ("spec.nodeName", NODES),
    ("spec.affinity", NODES),
    ("spec.tolerations", NODES),
    ("spec.schedulerName", NODES),
    ("spec.volumes", SECURITY),
];

/// Fields of single kinds.
const fn own_fields(kind: Kind) -> &'static [(&'static str, &'static str)] {
    match kind {
        Kind::Deployment | Kind::StatefulSet | Kind::PodDisruptionBudget => {
            &[("spec.selector", OWNERSHIP)]
        }
        Kind::HorizontalPodAutoscaler => &[("spec.scaleTargetRef", OWNERSHIP)],
        Kind::Service => &[
            ("spec.selector", OWNERSHIP),
            ("spec.type", REACHABLE),
            ("spec.externalIPs", REACHABLE),
            ("spec.externalName", REACHABLE),
            ("spec.loadBalancerIP", REACHABLE),
        ],
        Kind::Ingress => {
            &[("spec.rules", HOSTS), ("spec.tls", HOSTS), ("spec.defaultBackend", HOSTS)]
        }
        Kind::HttpRoute => {
            &[("spec.hostnames", HOSTS), ("spec.parentRefs", HOSTS), ("spec.rules", HOSTS)]
        }
        Kind::Certificate => &[
            ("spec.dnsNames", HOSTS),
            ("spec.issuerRef", HOSTS),
            ("spec.secretName", SECRETS),
            ("spec.secretTemplate", OWNERSHIP),
        ],
        Kind::ServiceMonitor => {
            &[("spec.selector", ISOLATION), ("spec.namespaceSelector", ISOLATION)]
        }
        Kind::Namespace
        | Kind::ResourceQuota
        | Kind::LimitRange
        | Kind::NetworkPolicy
        | Kind::ServiceAccount
        | Kind::RoleBinding
        | Kind::ConfigMap
        | Kind::Secret
        | Kind::PersistentVolumeClaim
        | Kind::CronJob
        | Kind::Job
        | Kind::Pod
        | Kind::PersistentVolume
        | Kind::Node => &[],
    }
}

fn find(fields: &[(&str, &'static str)], field: &str) -> Option<&'static str> {
    fields.iter().find(|(outer, _)| covers(outer, field)).map(|(_, why)| *why)
}
