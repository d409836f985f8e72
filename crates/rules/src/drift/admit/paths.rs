//! The fields that can differ, by kind: those that Trueup writes, and those that no other writer
//! may add (`compare::closed`).
//!
//! A segment `*` stands for any name. A path that ends with a dot contains everything inside of it.

use trueup_model::key::Kind;

use crate::spelling::distance;

/// Of every kind.
const EVERY: [&str; 4] = [
    "metadata.labels.",
    "metadata.annotations.",
    "metadata.ownerReferences.",
    "metadata.finalizers.",
];

/// Below a pod template.
const POD: [&str; 46] = [
    "metadata.labels.",
    "metadata.annotations.",
    "spec.activeDeadlineSeconds",
    "spec.affinity.",
    "spec.automountServiceAccountToken",
    "spec.containers.*.args.",
    "spec.containers.*.command.",
    "spec.containers.*.env.",
    "spec.containers.*.envFrom.",
    "spec.containers.*.image",
    "spec.containers.*.imagePullPolicy",
    "spec.containers.*.lifecycle.",
    "spec.containers.*.livenessProbe.",
    "spec.containers.*.name",
    "spec.containers.*.ports.",
    "spec.containers.*.readinessProbe.",
    "spec.containers.*.resources.",
    "spec.containers.*.securityContext.",
    "spec.containers.*.startupProbe.",
    "spec.containers.*.stdin",
    "spec.containers.*.terminationMessagePath",
    "spec.containers.*.terminationMessagePolicy",
    "spec.containers.*.tty",
    "spec.containers.*.volumeDevices.",
    "spec.containers.*.volumeMounts.",
    "spec.containers.*.workingDir",
    "spec.dnsConfig.",
    "spec.dnsPolicy",
    "spec.enableServiceLinks",
    "spec.hostAliases.",
    "spec.hostIPC",
    "spec.hostNetwork",
    "spec.hostPID",
    "spec.initContainers.",
    "spec.nodeName",
    "spec.nodeSelector.",
    "spec.readinessGates.",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.schedulingGates.",
    "spec.securityContext.",
    "spec.serviceAccountName",
    "spec.shareProcessNamespace",
    "spec.terminationGracePeriodSeconds",
    "spec.tolerations.",
    "spec.volumes.",
];

/// The name of the container that Trueup writes.
const CONTAINER: &str = "main";

/// Where a workload has its pod template.
pub(super) const fn pod_template(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Deployment | Kind::StatefulSet | Kind::Job => Some("spec.template"),
        Kind::CronJob => Some("spec.jobTemplate.spec.template"),
        Kind::Namespace
        | Kind::ResourceQuota
        | Kind::LimitRange
        | Kind::NetworkPolicy
        | Kind::ServiceAccount
        | Kind::RoleBinding
        | Kind::ConfigMap
        | Kind::Secret
        | Kind::PersistentVolumeClaim
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

/// Whether Trueup writes objects of this kind.
pub(super) const fn is_written(kind: Kind) -> bool {
    own_fields(kind).is_some()
}

/// Every kind that Trueup writes.
pub(super) fn written_kinds() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| is_written(*kind))
}

/// Whether a path names a field that can differ, or something around or inside of one.
pub(super) fn is_known(kind: Kind, path: &str) -> bool {
    known(kind).any(|known| meets(&known, path))
}

/// The known path that is most like this one: with the same last name, if there is one.
pub(super) fn nearest(kinds: &[Kind], path: &str) -> Option<String> {
    let last = |path: &str| path.rsplit('.').next().map(str::to_owned);
    let wanted = last(path);
    kinds
        .iter()
        .flat_map(|kind| known(*kind))
        .map(|known| example(&known, path))
        .min_by_key(|known| (last(known) != wanted, distance(known, path)))
}

fn known(kind: Kind) -> impl Iterator<Item = String> {
    let own = own_fields(kind);
    let every = own.into_iter().flat_map(|_| EVERY).map(str::to_owned);
    let pods = pod_template(kind)
        .into_iter()
        .flat_map(|template| POD.iter().map(move |field| format!("{template}.{field}")));
    let own = own.into_iter().flatten().map(|field| (*field).to_owned());
    every.chain(own).chain(pods)
}

/// Besides metadata and pod templates; none for a kind that Trueup does not write.
#[expect(clippy::too_many_lines, reason = "a table with a row for each kind")]
const fn own_fields(kind: Kind) -> Option<&'static [&'static str]> {
    match kind {
        Kind::Namespace => Some(&[]),
        Kind::ResourceQuota => Some(&["spec.hard.", "spec.scopes.", "spec.scopeSelector."]),
        Kind::LimitRange => Some(&["spec.limits."]),
        Kind::NetworkPolicy => {
            Some(&["spec.podSelector.", "spec.policyTypes.", "spec.ingress.", "spec.egress."])
        }
        Kind::ServiceAccount => Some(&["automountServiceAccountToken"]),
        Kind::RoleBinding => Some(&["roleRef.", "subjects."]),
        Kind::ConfigMap => Some(&["data.", "binaryData.", "immutable"]),
        Kind::Secret => Some(&["data.", "binaryData.", "immutable", "type"]),
        Kind::PersistentVolumeClaim => {
            Some(&["spec.accessModes.", "spec.resources.", "spec.volumeMode"])
        }
        Kind::Deployment => Some(&[
            "spec.minReadySeconds",
            "spec.paused",
            "spec.progressDeadlineSeconds",
            "spec.replicas",
            "spec.selector.",
            "spec.strategy.",
        ]),
        Kind::StatefulSet => Some(&[
            "spec.minReadySeconds",
            "spec.ordinals.",
            "spec.persistentVolumeClaimRetentionPolicy.",
            "spec.podManagementPolicy",
            "spec.replicas",
            "spec.selector.",
            "spec.serviceName",
            "spec.updateStrategy.",
            "spec.volumeClaimTemplates.",
        ]),
        Kind::CronJob => Some(&[
            "spec.concurrencyPolicy",
            "spec.failedJobsHistoryLimit",
            "spec.jobTemplate.metadata.annotations.",
            "spec.jobTemplate.metadata.labels.",
            "spec.jobTemplate.spec.activeDeadlineSeconds",
            "spec.jobTemplate.spec.backoffLimit",
            "spec.jobTemplate.spec.completionMode",
            "spec.jobTemplate.spec.completions",
            "spec.jobTemplate.spec.parallelism",
            "spec.jobTemplate.spec.ttlSecondsAfterFinished",
            "spec.schedule",
            "spec.startingDeadlineSeconds",
            "spec.successfulJobsHistoryLimit",
            "spec.suspend",
            "spec.timeZone",
        ]),
        Kind::Job => Some(&[
            "spec.activeDeadlineSeconds",
            "spec.backoffLimit",
            "spec.completionMode",
            "spec.completions",
            "spec.parallelism",
            "spec.suspend",
            "spec.ttlSecondsAfterFinished",
        ]),
        Kind::Service => Some(&[
            "spec.externalIPs.",
            "spec.externalName",
            "spec.externalTrafficPolicy",
            "spec.internalTrafficPolicy",
            "spec.loadBalancerIP",
            "spec.loadBalancerSourceRanges.",
            "spec.ports.",
            "spec.publishNotReadyAddresses",
            "spec.selector.",
            "spec.sessionAffinity",
            "spec.trafficDistribution",
            "spec.type",
        ]),
        Kind::PodDisruptionBudget => Some(&[
            "spec.maxUnavailable",
            "spec.minAvailable",
            "spec.selector.",
            "spec.unhealthyPodEvictionPolicy",
        ]),
        Kind::HorizontalPodAutoscaler => Some(&[
            "spec.behavior.",
            "spec.maxReplicas",
            "spec.metrics.",
            "spec.minReplicas",
            "spec.scaleTargetRef.",
        ]),
        Kind::Ingress => {
            Some(&["spec.defaultBackend.", "spec.ingressClassName", "spec.rules.", "spec.tls."])
        }
        Kind::HttpRoute => Some(&["spec.hostnames.", "spec.parentRefs.", "spec.rules."]),
        Kind::Certificate => {
            Some(&["spec.dnsNames.", "spec.issuerRef.", "spec.secretName", "spec.secretTemplate."])
        }
        Kind::ServiceMonitor => {
            Some(&["spec.endpoints.", "spec.namespaceSelector.", "spec.selector."])
        }
        Kind::Pod | Kind::PersistentVolume | Kind::Node => None,
    }
}

/// Whether one of both paths begins with the other.
fn meets(known: &str, path: &str) -> bool {
    let has_more = known.ends_with('.');
    let mut segments = known.trim_end_matches('.').split('.');
    for given in path.split('.') {
        match segments.next() {
            None => return has_more,
            Some(expected) if expected == "*" || expected == given => {}
            Some(_) => return false,
        }
    }
    true
}

/// A known path without placeholders: containers are named as in the given path, if it names one.
fn example(known: &str, path: &str) -> String {
    let mut given = path.split('.').skip_while(|segment| *segment != "containers").skip(1);
    let container = given.next().unwrap_or(CONTAINER);
    known.trim_end_matches('.').replace('*', container)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_known_with_its_parents_and_with_what_is_inside() {
        let table = [
            ("spec.replicas", true),
            ("spec", true),
            ("spec.replicas.more", false),
            ("spec.template.spec.containers", true),
            ("spec.template.spec.containers.sidecar", true),
            ("spec.template.spec.containers.main.resources.limits.cpu", true),
            ("spec.template.spec.containers.main.imag", false),
            ("spec.template.spec.containers.main.image.tag", false),
            ("metadata.labels.app.kubernetes.io/name", true),
            ("status", false),
            ("data", false),
        ];
        for (path, expected) in table {
            assert_eq!(is_known(Kind::Deployment, path), expected, "{path}");
        }
        assert!(!is_known(Kind::Pod, "metadata.labels"));
    }

    #[test]
    fn the_nearest_path_keeps_the_last_name_and_the_container() {
        let table = [
            (Kind::Deployment, "spec.replica", "spec.replicas"),
            (Kind::Deployment, "replicas", "spec.replicas"),
            (
                Kind::Deployment,
                "spec.containers.main.image",
                "spec.template.spec.containers.main.image",
            ),
            (
                Kind::CronJob,
                "spec.template.spec.containers.side.image",
                "spec.jobTemplate.spec.template.spec.containers.side.image",
            ),
            (Kind::CronJob, "spec.schedul", "spec.schedule"),
            (Kind::ConfigMap, "date", "data"),
        ];
        for (kind, path, expected) in table {
            assert_eq!(nearest(&[kind], path).as_deref(), Some(expected), "{path}");
        }
    }
}
