//! Which object in a cluster: kind, namespace and name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The kinds Trueup writes or watches. Strings exist only at the Kubernetes edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// A project's namespace.
    Namespace,
    /// The most a project may use.
    ResourceQuota,
    /// Defaults for containers that name none.
    LimitRange,
    /// Default deny, with the openings a project has.
    NetworkPolicy,
    /// The account pods run as, without a token.
    ServiceAccount,
    /// Who may read and write the secrets of a project.
    RoleBinding,
    /// Plain variables, and the anchor.
    ConfigMap,
    /// Secret variables.
    Secret,
    /// Disk.
    PersistentVolumeClaim,
    /// Stateless workload.
    Deployment,
    /// Workload with a stable identity and disk.
    StatefulSet,
    /// Workload that runs by the clock.
    CronJob,
    /// Workload that runs once.
    Job,
    /// A stable address inside the cluster.
    Service,
    /// How many pods at once may be taken away on purpose.
    PodDisruptionBudget,
    /// Who says how many pods there are, where that follows the load.
    HorizontalPodAutoscaler,
    /// A host name that leads to a service.
    Ingress,
    /// The same, through a gateway.
    #[serde(rename = "HTTPRoute")]
    HttpRoute,
    /// What a host name is proved with.
    Certificate,
    /// Who reads a service's metrics.
    ServiceMonitor,
    /// What really runs. Observed, never written.
    Pod,
    /// The disk behind a claim. Observed, never written.
    PersistentVolume,
    /// A machine that pods run on. Observed, never written.
    Node,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 23] = [
        Self::Namespace,
        Self::ResourceQuota,
        Self::LimitRange,
        Self::NetworkPolicy,
        Self::ServiceAccount,
        Self::RoleBinding,
        Self::ConfigMap,
        Self::Secret,
        Self::PersistentVolumeClaim,
        Self::Deployment,
        Self::StatefulSet,
        Self::CronJob,
        Self::Job,
        Self::Service,
        Self::PodDisruptionBudget,
        Self::HorizontalPodAutoscaler,
        Self::Ingress,
        Self::HttpRoute,
        Self::Certificate,
        Self::ServiceMonitor,
        Self::Pod,
        Self::PersistentVolume,
        Self::Node,
    ];

    /// The kinds an executor must have seen before it plans.
    pub const WATCHED: [Self; 20] = [
        Self::Namespace,
        Self::ResourceQuota,
        Self::LimitRange,
        Self::NetworkPolicy,
        Self::ServiceAccount,
        Self::RoleBinding,
        Self::ConfigMap,
        Self::PersistentVolumeClaim,
        Self::Deployment,
        Self::StatefulSet,
        Self::CronJob,
        Self::Job,
        Self::Service,
        Self::PodDisruptionBudget,
        Self::HorizontalPodAutoscaler,
        Self::Ingress,
        Self::HttpRoute,
        Self::Certificate,
        Self::ServiceMonitor,
        Self::Pod,
    ];

    /// The kinds that are never watched, because whoever may do that in a whole
    /// cluster may read every secret in it: read one by one, where a project lets us.
    pub const READ: [Self; 1] = [Self::Secret];

    /// The kinds that are followed beside those: what pods stand on. No plan waits for them.
    pub const BESIDE: [Self; 2] = [Self::PersistentVolume, Self::Node];

    /// The kind as Kubernetes spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::ResourceQuota => "ResourceQuota",
            Self::LimitRange => "LimitRange",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::ServiceAccount => "ServiceAccount",
            Self::RoleBinding => "RoleBinding",
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::CronJob => "CronJob",
            Self::Job => "Job",
            Self::Service => "Service",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::HorizontalPodAutoscaler => "HorizontalPodAutoscaler",
            Self::Ingress => "Ingress",
            Self::HttpRoute => "HTTPRoute",
            Self::Certificate => "Certificate",
            Self::ServiceMonitor => "ServiceMonitor",
            Self::Pod => "Pod",
            Self::PersistentVolume => "PersistentVolume",
            Self::Node => "Node",
        }
    }

    /// The API group it belongs to; empty for the core.
    #[must_use]
    pub const fn group(self) -> &'static str {
        match self {
            Self::Deployment | Self::StatefulSet => "apps",
            Self::CronJob | Self::Job => "batch",
            Self::NetworkPolicy | Self::Ingress => "networking.k8s.io",
            Self::RoleBinding => "rbac.authorization.k8s.io",
            Self::PodDisruptionBudget => "policy",
            Self::HorizontalPodAutoscaler => "autoscaling",
            Self::HttpRoute => "gateway.networking.k8s.io",
            Self::Certificate => "cert-manager.io",
            Self::ServiceMonitor => "monitoring.coreos.com",
            Self::Namespace
            | Self::ResourceQuota
            | Self::LimitRange
            | Self::ServiceAccount
            | Self::ConfigMap
            | Self::Secret
            | Self::PersistentVolumeClaim
            | Self::Service
            | Self::Pod
            | Self::PersistentVolume
            | Self::Node => "",
        }
    }

    /// The `apiVersion` of its objects.
    #[must_use]
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::Deployment | Self::StatefulSet => "apps/v1",
            Self::CronJob | Self::Job => "batch/v1",
            Self::NetworkPolicy | Self::Ingress => "networking.k8s.io/v1",
            Self::RoleBinding => "rbac.authorization.k8s.io/v1",
            Self::PodDisruptionBudget => "policy/v1",
            Self::HorizontalPodAutoscaler => "autoscaling/v2",
            Self::HttpRoute => "gateway.networking.k8s.io/v1",
            Self::Certificate => "cert-manager.io/v1",
            Self::ServiceMonitor => "monitoring.coreos.com/v1",
            Self::Namespace
            | Self::ResourceQuota
            | Self::LimitRange
            | Self::ServiceAccount
            | Self::ConfigMap
            | Self::Secret
            | Self::PersistentVolumeClaim
            | Self::Service
            | Self::Pod
            | Self::PersistentVolume
            | Self::Node => "v1",
        }
    }

    /// Its name in paths, in rules of access and in the details of a failure.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Namespace => "namespaces",
            Self::ResourceQuota => "resourcequotas",
            Self::LimitRange => "limitranges",
            Self::NetworkPolicy => "networkpolicies",
            Self::ServiceAccount => "serviceaccounts",
            Self::RoleBinding => "rolebindings",
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
            Self::PersistentVolumeClaim => "persistentvolumeclaims",
            Self::Deployment => "deployments",
            Self::StatefulSet => "statefulsets",
            Self::CronJob => "cronjobs",
            Self::Job => "jobs",
            Self::Service => "services",
            Self::PodDisruptionBudget => "poddisruptionbudgets",
            Self::HorizontalPodAutoscaler => "horizontalpodautoscalers",
            Self::Ingress => "ingresses",
            Self::HttpRoute => "httproutes",
            Self::Certificate => "certificates",
            Self::ServiceMonitor => "servicemonitors",
            Self::Pod => "pods",
            Self::PersistentVolume => "persistentvolumes",
            Self::Node => "nodes",
        }
    }

    /// Whether a service runs without objects of this kind. A cluster may not serve such a kind, or not
    /// let us near it; then that part is missing and nothing else waits for it.
    #[must_use]
    pub const fn is_optional(self) -> bool {
        matches!(
            self,
            Self::PodDisruptionBudget
                | Self::HorizontalPodAutoscaler
                | Self::Ingress
                | Self::HttpRoute
                | Self::Certificate
                | Self::ServiceMonitor
        )
    }

    /// What an operator installs to have a kind that does not come with every cluster.
    #[must_use]
    pub const fn comes_with(self) -> Option<&'static str> {
        match self {
            Self::HttpRoute => Some("the Gateway API"),
            Self::Certificate => Some("cert-manager"),
            Self::ServiceMonitor => Some("the Prometheus operator"),
            Self::Namespace
            | Self::ResourceQuota
            | Self::LimitRange
            | Self::NetworkPolicy
            | Self::ServiceAccount
            | Self::RoleBinding
            | Self::ConfigMap
            | Self::Secret
            | Self::PersistentVolumeClaim
            | Self::Deployment
            | Self::StatefulSet
            | Self::CronJob
            | Self::Job
            | Self::Service
            | Self::PodDisruptionBudget
            | Self::HorizontalPodAutoscaler
            | Self::Ingress
            | Self::Pod
            | Self::PersistentVolume
            | Self::Node => None,
        }
    }

    /// Whether objects of this kind carry a service's pods.
    #[must_use]
    pub const fn is_workload(self) -> bool {
        matches!(self, Self::Deployment | Self::StatefulSet | Self::CronJob | Self::Job)
    }

    /// Whether what happens to objects of this kind is written down as transitions.
    #[must_use]
    pub const fn is_recorded(self) -> bool {
        matches!(
            self,
            Self::Pod | Self::PersistentVolumeClaim | Self::PersistentVolume | Self::Node
        )
    }

    /// Whether objects of this kind live in a namespace.
    #[must_use]
    pub const fn is_namespaced(self) -> bool {
        !matches!(self, Self::Namespace | Self::PersistentVolume | Self::Node)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no kind Trueup knows.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a kind that Trueup knows")]
pub struct UnknownKind(String);

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| UnknownKind(text.to_owned()))
    }
}

/// The address of one object inside one cluster. Order: by kind, then namespace, then name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResourceKey {
    /// What it is.
    pub kind: Kind,
    /// Where it lives; empty for kinds without a namespace.
    pub namespace: String,
    /// What it is called there.
    pub name: String,
}

impl ResourceKey {
    /// The key of a namespaced object.
    #[must_use]
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        let namespace = if kind.is_namespaced() { namespace.to_owned() } else { String::new() };
        Self { kind, namespace, name: name.to_owned() }
    }
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{}/{}", self.kind, self.name)
        } else {
            write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_back_from_its_text() {
        for kind in Kind::ALL {
            assert_eq!(kind.as_str().parse::<Kind>().unwrap(), kind);
        }
    }

    #[test]
    fn group_and_version_say_the_same() {
        for kind in Kind::ALL {
            let group = kind.api_version().split_once('/').map_or("", |(group, _)| group);
            assert_eq!(group, kind.group(), "{kind}");
        }
    }
}
