//! Fields that are stated although their value is the API server's default.
//!
//! Server-side apply leaves a field that we never state to other writers. So every field that
//! decides what a service does is stated, and a change by another writer is drift. The values are
//! the server's defaults: stating one changes no stored object, so no pod restarts. The server
//! drops zero and false, so those cannot be stated: closed paths cover them (`compare::closed`).

use k8s_openapi::api::apps::v1::{
    DeploymentStrategy, RollingUpdateDeployment, RollingUpdateStatefulSetStrategy,
    StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetUpdateStrategy,
};
use k8s_openapi::api::batch::v1::JobSpec;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, PodSpec, Probe, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::admit::image;

/// How long a rollout may take before the Deployment reports that it makes no progress.
pub(super) const PROGRESS_DEADLINE_S: i32 = 600;

/// Pods of a StatefulSet start in order, each after the one before is ready. Immutable.
pub(super) const POD_MANAGEMENT: &str = "OrderedReady";

/// How long a pod may take to stop.
const GRACE_S: i64 = 30;

/// A quarter of the pods, rounded up for new pods and down for stopped ones.
const QUARTER: &str = "25%";

/// A rollout starts new pods before it stops old ones.
pub(super) fn rollout() -> DeploymentStrategy {
    let quarter = || Some(IntOrString::String(QUARTER.to_owned()));
    DeploymentStrategy {
        type_: Some("RollingUpdate".to_owned()),
        rolling_update: Some(RollingUpdateDeployment {
            max_surge: quarter(),
            max_unavailable: quarter(),
        }),
    }
}

/// A change reaches every pod of a StatefulSet, the last one first.
pub(super) fn stateful_rollout() -> StatefulSetUpdateStrategy {
    StatefulSetUpdateStrategy {
        type_: Some("RollingUpdate".to_owned()),
        rolling_update: Some(RollingUpdateStatefulSetStrategy {
            partition: Some(0),
            ..RollingUpdateStatefulSetStrategy::default()
        }),
    }
}

/// Claims outlive their StatefulSet and its scale: only Trueup deletes data.
pub(super) fn retention() -> StatefulSetPersistentVolumeClaimRetentionPolicy {
    let retain = || Some("Retain".to_owned());
    StatefulSetPersistentVolumeClaimRetentionPolicy {
        when_deleted: retain(),
        when_scaled: retain(),
    }
}

/// A pod that is restarted until its workload removes it; the rest is the caller's.
pub(super) fn pod() -> PodSpec {
    PodSpec {
        restart_policy: Some("Always".to_owned()),
        termination_grace_period_seconds: Some(GRACE_S),
        dns_policy: Some("ClusterFirst".to_owned()),
        scheduler_name: Some("default-scheduler".to_owned()),
        ..PodSpec::default()
    }
}

/// A container of this image; the rest is the caller's.
pub(super) fn container(image: &str) -> Container {
    Container {
        image: Some(image.to_owned()),
        image_pull_policy: Some(pull_policy(image).to_owned()),
        termination_message_path: Some("/dev/termination-log".to_owned()),
        termination_message_policy: Some("File".to_owned()),
        ..Container::default()
    }
}

/// The server's default: an image that can change under its name is pulled for each start.
fn pull_policy(image: &str) -> &'static str {
    match image::parse(image).map(|image| (image.tag, image.digest)) {
        Ok((Some("latest"), _) | (None, None)) => "Always",
        Ok((Some(_) | None, _)) | Err(_) => "IfNotPresent",
    }
}

/// How often a probe asks, and how often it may fail; the question is the caller's.
pub(super) fn probe() -> Probe {
    Probe {
        timeout_seconds: Some(1),
        period_seconds: Some(10),
        success_threshold: Some(1),
        failure_threshold: Some(3),
        ..Probe::default()
    }
}

/// A GET on this path and port.
pub(super) fn http_get(path: &str, port: IntOrString) -> HTTPGetAction {
    HTTPGetAction {
        path: Some(path.to_owned()),
        port,
        scheme: Some("HTTP".to_owned()),
        ..HTTPGetAction::default()
    }
}

/// One pod that has to succeed once; the rest is the caller's.
pub(super) fn run() -> JobSpec {
    JobSpec {
        completions: Some(1),
        parallelism: Some(1),
        completion_mode: Some("NonIndexed".to_owned()),
        ..JobSpec::default()
    }
}

/// A Service inside of the cluster that sends each request to any ready pod.
pub(super) fn cluster_ip() -> ServiceSpec {
    ServiceSpec {
        type_: Some("ClusterIP".to_owned()),
        session_affinity: Some("None".to_owned()),
        internal_traffic_policy: Some("Cluster".to_owned()),
        ..ServiceSpec::default()
    }
}

/// The same, also reachable at a port of every node.
pub(super) fn node_port() -> ServiceSpec {
    ServiceSpec {
        type_: Some("NodePort".to_owned()),
        external_traffic_policy: Some("Cluster".to_owned()),
        ..cluster_ip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in `SetDefaults_Container` of Kubernetes.
    #[test]
    fn the_pull_policy_is_the_servers_default() {
        let digest = format!("web@sha256:{}", "0".repeat(64));
        let pinned = format!("web:latest@sha256:{}", "0".repeat(64));
        let table = [
            ("web", "Always"),
            ("web:latest", "Always"),
            ("registry.example:5000/web", "Always"),
            (pinned.as_str(), "Always"),
            ("web:1", "IfNotPresent"),
            ("registry.example:5000/web:1", "IfNotPresent"),
            (digest.as_str(), "IfNotPresent"),
        ];
        for (image, expected) in table {
            assert_eq!(pull_policy(image), expected, "{image}");
        }
    }
}
