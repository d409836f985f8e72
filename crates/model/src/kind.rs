//! The kinds of Kubernetes objects that Trueup writes or watches, in one table.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Defines [`Kind`] from one row for each kind: variant, name, `apiVersion` and plural.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $name:literal, $api_version:literal, $plural:literal;)*) => {
        /// The kinds Trueup writes or watches. They are strings only at the Kubernetes boundary.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
        )]
        #[schema(as = ResourceKind)]
        pub enum Kind {
            $($(#[$doc])* #[serde(rename = $name)] $kind,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$kind),*];

            /// The kind's name in Kubernetes.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// The `apiVersion` of its objects.
            #[must_use]
            pub const fn api_version(self) -> &'static str {
                match self {
                    $(Self::$kind => $api_version,)*
                }
            }

            /// Its name in paths, in access rules and in error details.
            #[must_use]
            pub const fn plural(self) -> &'static str {
                match self {
                    $(Self::$kind => $plural,)*
                }
            }
        }
    };
}

kinds! {
    /// A project's namespace.
    Namespace: "Namespace", "v1", "namespaces";
    /// The resource limits of a project.
    ResourceQuota: "ResourceQuota", "v1", "resourcequotas";
    /// Default limits for containers that set none.
    LimitRange: "LimitRange", "v1", "limitranges";
    /// Default deny, with the project's exceptions.
    NetworkPolicy: "NetworkPolicy", "networking.k8s.io/v1", "networkpolicies";
    /// The account pods run as, without a token.
    ServiceAccount: "ServiceAccount", "v1", "serviceaccounts";
    /// Permission to read and write the secrets of a project.
    RoleBinding: "RoleBinding", "rbac.authorization.k8s.io/v1", "rolebindings";
    /// Plain variables, and the anchor.
    ConfigMap: "ConfigMap", "v1", "configmaps";
    /// Secret variables.
    Secret: "Secret", "v1", "secrets";
    /// A claim for a disk.
    PersistentVolumeClaim: "PersistentVolumeClaim", "v1", "persistentvolumeclaims";
    /// Stateless workload.
    Deployment: "Deployment", "apps/v1", "deployments";
    /// Workload with a stable identity and disk.
    StatefulSet: "StatefulSet", "apps/v1", "statefulsets";
    /// Workload that runs on a schedule.
    CronJob: "CronJob", "batch/v1", "cronjobs";
    /// Workload that runs once.
    Job: "Job", "batch/v1", "jobs";
    /// A stable address inside the cluster.
    Service: "Service", "v1", "services";
    /// How many pods may be evicted at once.
    PodDisruptionBudget: "PodDisruptionBudget", "policy/v1", "poddisruptionbudgets";
    /// Sets the number of pods by load, for services with autoscaling.
    HorizontalPodAutoscaler: "HorizontalPodAutoscaler", "autoscaling/v2", "horizontalpodautoscalers";
    /// Routes a host name to a service.
    Ingress: "Ingress", "networking.k8s.io/v1", "ingresses";
    /// Routes a host name to a service, through a gateway.
    HttpRoute: "HTTPRoute", "gateway.networking.k8s.io/v1", "httproutes";
    /// The TLS certificate of a host name.
    Certificate: "Certificate", "cert-manager.io/v1", "certificates";
    /// Tells Prometheus to scrape a service's metrics.
    ServiceMonitor: "ServiceMonitor", "monitoring.coreos.com/v1", "servicemonitors";
    /// A running pod. Observed, never written.
    Pod: "Pod", "v1", "pods";
    /// The disk behind a claim. Observed, never written.
    PersistentVolume: "PersistentVolume", "v1", "persistentvolumes";
    /// A node that pods run on. Observed, never written.
    Node: "Node", "v1", "nodes";
}

impl Kind {
    /// Its API group; empty for the core group.
    #[must_use]
    pub fn group(self) -> &'static str {
        self.api_version().split_once('/').map_or("", |(group, _)| group)
    }

    /// The kinds an executor must have listed before it plans.
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

    /// The kinds that are never watched, only read one by one.
    ///
    /// Permission to watch Secrets cluster-wide would be permission to read every secret; Trueup
    /// reads them only in namespaces whose RoleBinding allows it.
    pub const READ: [Self; 1] = [Self::Secret];

    /// Also watched, because pods depend on them. No plan waits for these kinds.
    pub const BESIDE: [Self; 2] = [Self::PersistentVolume, Self::Node];

    /// Whether a service runs without objects of this kind.
    ///
    /// If the cluster does not serve an optional kind, or forbids it, that part of the service is
    /// missing and nothing else waits for it.
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

    /// The add-on an operator installs to get a kind that not every cluster serves.
    #[must_use]
    pub const fn comes_with(self) -> Option<&'static str> {
        match self {
            Self::HttpRoute => Some("the Gateway API"),
            Self::Certificate => Some("cert-manager"),
            Self::ServiceMonitor => Some("the Prometheus operator"),
            _ => None,
        }
    }

    /// Whether objects of this kind manage a service's pods.
    #[must_use]
    pub const fn is_workload(self) -> bool {
        matches!(self, Self::Deployment | Self::StatefulSet | Self::CronJob | Self::Job)
    }

    /// Whether state changes of objects of this kind are recorded as transitions.
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

/// A text that is not the name of a supported kind.
#[derive(Debug, thiserror::Error)]
#[error("unknown kind `{0}`")]
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
