//! Closed paths by kind. A new kind lists here what no other writer may add to it.

use trueup_model::key::Kind;

use super::{Fields, Rule};
use crate::render::names;

/// Written with each apply and checked separately: they say when an object was written, not what it
/// contains.
pub(super) const STAMPS: [&str; 2] = [names::GENERATION_LABEL, names::DIGEST_ANNOTATION];

/// Of every kind: owners, and labels and annotations with our prefix.
pub(super) const EVERY: Fields = &[(
    "metadata",
    Rule::Fields(&[
        ("ownerReferences", Rule::Entries(&["uid"], &[])),
        ("labels", Rule::Prefixes(OURS)),
        ("annotations", Rule::Prefixes(OURS)),
    ]),
)];

const OURS: &[&str] = &["trueup.dev/"];

pub(super) const fn of(kind: Kind) -> Fields {
    match kind {
        Kind::Namespace => NAMESPACE,
        Kind::ResourceQuota => QUOTA,
        Kind::RoleBinding => &[("subjects", Rule::Exact)],
        Kind::LimitRange => &[("spec", Rule::Exact)],
        Kind::NetworkPolicy => &[("spec", Rule::Exact)],
        Kind::ConfigMap | Kind::Secret => &[("data", Rule::Exact), ("binaryData", Rule::Unsaid)],
        Kind::Deployment => &[("spec", Rule::Fields(DEPLOYMENT))],
        Kind::StatefulSet => &[("spec", Rule::Fields(&[TEMPLATE]))],
        Kind::CronJob => CRON_JOB,
        // A finished Job that is cleaned up would run again.
        Kind::Job => &[("spec", Rule::Fields(&[("ttlSecondsAfterFinished", Rule::Unsaid)]))],
        Kind::Service => &[("spec", Rule::Fields(SERVICE))],
        Kind::PodDisruptionBudget => &[("spec", Rule::Exact)],
        Kind::HorizontalPodAutoscaler => {
            &[("spec", Rule::Fields(&[("scaleTargetRef", Rule::Exact), ("metrics", Rule::Exact)]))]
        }
        Kind::Ingress => &[(
            "spec",
            Rule::Fields(&[
                ("rules", Rule::Exact),
                ("tls", Rule::Exact),
                ("defaultBackend", Rule::Unsaid),
            ]),
        )],
        // Controllers may set defaults in their own kinds, but not hosts and names.
        Kind::HttpRoute => &[(
            "spec",
            Rule::Fields(&[
                ("hostnames", Rule::Exact),
                ("parentRefs", Rule::Entries(&["namespace", "name"], &[])),
            ]),
        )],
        Kind::Certificate => &[("spec", Rule::Fields(&[("dnsNames", Rule::Exact)]))],
        Kind::ServiceMonitor => &[(
            "spec",
            Rule::Fields(&[("selector", Rule::Exact), ("namespaceSelector", Rule::Unsaid)]),
        )],
        Kind::ServiceAccount
        | Kind::PersistentVolumeClaim
        | Kind::Pod
        | Kind::PersistentVolume
        | Kind::Node => &[],
    }
}

/// A pinned version of the pod security rules may be a weaker one.
const NAMESPACE: Fields =
    &[("metadata", Rule::Fields(&[("labels", Rule::Prefixes(&["pod-security.kubernetes.io/"]))]))];

const QUOTA: Fields = &[(
    "spec",
    Rule::Fields(&[
        ("hard", Rule::Exact),
        ("scopes", Rule::Unsaid),
        ("scopeSelector", Rule::Unsaid),
    ]),
)];

const DEPLOYMENT: Fields = &[TEMPLATE, ("paused", Rule::Unsaid)];

const CRON_JOB: Fields = &[(
    "spec",
    Rule::Fields(&[(
        "jobTemplate",
        Rule::Fields(&[("metadata", METADATA), ("spec", Rule::Fields(&[TEMPLATE]))]),
    )]),
)];

const SERVICE: Fields = &[
    ("selector", Rule::Exact),
    ("ports", Rule::Entries(&["port", "protocol"], &[])),
    ("type", Rule::Else("ClusterIP")),
    ("externalIPs", Rule::Unsaid),
    ("externalName", Rule::Unsaid),
];

const TEMPLATE: (&str, Rule) =
    ("template", Rule::Fields(&[("metadata", METADATA), ("spec", Rule::Fields(POD))]));

const METADATA: Rule =
    Rule::Fields(&[("labels", Rule::Prefixes(OURS)), ("annotations", Rule::Prefixes(OURS))]);

const POD: Fields = &[
    ("initContainers", Rule::Entries(&["name"], CONTAINER)),
    ("containers", Rule::Entries(&["name"], CONTAINER)),
    ("volumes", Rule::Entries(&["name"], &[])),
    ("hostNetwork", Rule::Unsaid),
    ("hostPID", Rule::Unsaid),
    ("hostIPC", Rule::Unsaid),
    ("hostAliases", Rule::Unsaid),
    // The class of nodes is what the plan pays for. Other node selectors and tolerations are up to
    // the operator of the cluster.
    ("nodeSelector", Rule::Prefixes(OURS)),
    ("nodeName", Rule::Unsaid),
];

const CONTAINER: Fields = &[
    ("command", Rule::Exact),
    ("args", Rule::Exact),
    ("env", Rule::Entries(&["name"], &[])),
    ("envFrom", Rule::Exact),
    ("ports", Rule::Entries(&["containerPort", "protocol"], &[])),
    ("volumeMounts", Rule::Entries(&["mountPath"], &[])),
    ("volumeDevices", Rule::Unsaid),
    ("lifecycle", Rule::Unsaid),
    ("livenessProbe", Rule::Unsaid),
    ("readinessProbe", Rule::Unsaid),
    ("startupProbe", Rule::Unsaid),
    ("resources", Rule::Exact),
    (
        "securityContext",
        Rule::Fields(&[
            ("privileged", Rule::Unsaid),
            ("capabilities", Rule::Exact),
            ("runAsUser", Rule::Unsaid),
            ("runAsGroup", Rule::Unsaid),
        ]),
    ),
];
