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

/// The prefix of our own labels and annotations.
pub(crate) const OWN_PREFIX: &str = "trueup.dev/";

const OURS: &[&str] = &[OWN_PREFIX];

pub(super) const fn of(kind: Kind) -> Fields {
    match kind {
        Kind::Namespace => NAMESPACE,
        Kind::ResourceQuota => QUOTA,
        Kind::RoleBinding => &[("subjects", Rule::Exact)],
        Kind::LimitRange => &[("spec", Rule::Exact)],
        Kind::NetworkPolicy => &[("spec", Rule::Exact)],
        Kind::ConfigMap | Kind::Secret => &[("data", Rule::Exact), ("binaryData", Rule::Unsaid)],
        Kind::Deployment => &[("spec", Rule::Fields(DEPLOYMENT))],
        Kind::StatefulSet => &[("spec", Rule::Fields(STATEFUL_SET))],
        Kind::CronJob => CRON_JOB,
        Kind::Job => &[("spec", Rule::Fields(&[RUN_LIMIT, RUN_CLEANUP]))],
        Kind::Service => &[("spec", Rule::Fields(SERVICE))],
        Kind::PodDisruptionBudget => &[("spec", Rule::Exact)],
        Kind::HorizontalPodAutoscaler => &[(
            "spec",
            Rule::Fields(&[
                ("scaleTargetRef", Rule::Exact),
                ("metrics", Rule::Exact),
                ("behavior", Rule::Unsaid),
            ]),
        )],
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

const DEPLOYMENT: Fields = &[TEMPLATE, DELAY, ("paused", Rule::Unsaid)];

/// A pod would count as available only after so many seconds: none, which the server does not keep.
const DELAY: (&str, Rule) = ("minReadySeconds", Rule::Unsaid);

const STATEFUL_SET: Fields = &[
    TEMPLATE,
    DELAY,
    ("ordinals", Rule::Unsaid),
    // Only some servers know the field; those set it to one pod at a time.
    (
        "updateStrategy",
        Rule::Fields(&[("rollingUpdate", Rule::Fields(&[("maxUnavailable", Rule::Number(1))]))]),
    ),
];

const CRON_JOB: Fields = &[(
    "spec",
    Rule::Fields(&[(
        "jobTemplate",
        Rule::Fields(&[
            ("metadata", METADATA),
            ("spec", Rule::Fields(&[TEMPLATE, RUN_LIMIT, RUN_CLEANUP])),
        ]),
    )]),
)];

/// A limit would stop a run that the spec lets go on.
const RUN_LIMIT: (&str, Rule) = ("activeDeadlineSeconds", Rule::Unsaid);

/// A finished Job that is cleaned up would run again, and a failed run could not be explained.
const RUN_CLEANUP: (&str, Rule) = ("ttlSecondsAfterFinished", Rule::Unsaid);

const SERVICE: Fields = &[
    ("selector", Rule::Exact),
    ("ports", Rule::Entries(&["port", "protocol"], &[])),
    ("externalIPs", Rule::Unsaid),
    ("externalName", Rule::Unsaid),
    ("publishNotReadyAddresses", Rule::Unsaid),
    ("trafficDistribution", Rule::Unsaid),
    ("loadBalancerIP", Rule::Unsaid),
    ("loadBalancerSourceRanges", Rule::Unsaid),
];

const TEMPLATE: (&str, Rule) =
    ("template", Rule::Fields(&[("metadata", METADATA), ("spec", Rule::Fields(POD))]));

const METADATA: Rule =
    Rule::Fields(&[("labels", Rule::Prefixes(OURS)), ("annotations", Rule::Prefixes(OURS))]);

const POD: Fields = &[
    ("initContainers", Rule::Entries(&["name"], CONTAINER)),
    ("containers", Rule::Entries(&["name"], CONTAINER)),
    ("volumes", Rule::Entries(&["name"], &[("persistentVolumeClaim", Rule::Exact)])),
    ("hostNetwork", Rule::Unsaid),
    ("hostPID", Rule::Unsaid),
    ("hostIPC", Rule::Unsaid),
    ("hostAliases", Rule::Unsaid),
    ("shareProcessNamespace", Rule::Unsaid),
    ("dnsConfig", Rule::Unsaid),
    ("readinessGates", Rule::Unsaid),
    ("schedulingGates", Rule::Unsaid),
    ("activeDeadlineSeconds", Rule::Unsaid),
    // The class of nodes is what the plan pays for. Other node selectors, tolerations, priorities
    // and runtime classes are up to the operator of the cluster.
    ("nodeSelector", Rule::Prefixes(OURS)),
    ("nodeName", Rule::Unsaid),
    ("affinity", Rule::Unsaid),
    (
        "securityContext",
        Rule::Fields(&[("supplementalGroups", Rule::Unsaid), ("sysctls", Rule::Unsaid)]),
    ),
];

const CONTAINER: Fields = &[
    ("command", Rule::Exact),
    ("args", Rule::Exact),
    ("env", Rule::Entries(&["name"], &[])),
    ("envFrom", Rule::Exact),
    ("workingDir", Rule::Unsaid),
    ("stdin", Rule::Unsaid),
    ("tty", Rule::Unsaid),
    ("ports", Rule::Entries(&["containerPort", "protocol"], &[("hostPort", Rule::Unsaid)])),
    ("volumeMounts", Rule::Entries(&["mountPath"], MOUNT)),
    ("volumeDevices", Rule::Unsaid),
    ("lifecycle", Rule::Unsaid),
    ("livenessProbe", Rule::Unsaid),
    // A probe has one question: removing another one alone would leave none.
    ("readinessProbe", Rule::Whole),
    ("startupProbe", Rule::Unsaid),
    ("resources", Rule::Exact),
    (
        "securityContext",
        Rule::Fields(&[
            ("privileged", Rule::Unsaid),
            ("readOnlyRootFilesystem", Rule::Unsaid),
            ("capabilities", Rule::Exact),
            ("runAsUser", Rule::Unsaid),
            ("runAsGroup", Rule::Unsaid),
        ]),
    ),
];

/// Another folder of the disk, or one that cannot be written, would hide the data.
const MOUNT: Fields =
    &[("readOnly", Rule::Unsaid), ("subPath", Rule::Unsaid), ("subPathExpr", Rule::Unsaid)];
