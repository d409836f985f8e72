//! The spec of a service, resolved from template and parameters. Stored, never resolved again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::name::Name;

/// The most pods of a service.
pub const MAX_PODS: u32 = 1000;

/// A resolved spec: everything `rules::render` needs to render objects, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ServiceSpec)]
pub struct Spec {
    /// The kind of workload.
    pub workload: Workload,
    /// The container image.
    pub image: String,
    /// The number of pods. Runs of a cron or a job have one.
    pub replicas: u32,
    /// Autoscaling by load; without it there are always `replicas` pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscale: Option<Autoscale>,
    /// The schedule of a cron: five fields, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// How often a failed run is retried.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// The time limit of a run in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_s: Option<u32>,
    /// Runs instead of the image's entry point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Arguments for the image's entry point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Ports the container listens on; the first one is probed. Without ports there is no Service.
    #[serde(default)]
    pub ports: Vec<Port>,
    /// Plain environment variables.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// Names of secret variables whose values Trueup generates.
    #[serde(default)]
    pub generated_secrets: Vec<String>,
    /// The resources of each pod.
    pub resources: Resources,
    /// The plan that `resources` come from and that is billed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Name>,
    /// The plan's node class; none for any node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Name>,
    /// Incremented to replace every pod without changing anything else.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restart: u32,
    /// The disk of each pod, for stateful workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<Volume>,
    /// Whether containers cannot write to their image's files, only to the volume and the scratch space.
    #[serde(default, skip_serializing_if = "is_false")]
    pub read_only_root: bool,
    /// Folders that can be written to and are empty in each new pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scratch: Vec<Scratch>,
    /// The readiness check; without one a running pod is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
}

impl Spec {
    /// The maximum number of pods: what quota and price are computed from.
    #[must_use]
    pub const fn most_replicas(&self) -> u32 {
        match &self.autoscale {
            Some(autoscale) => autoscale.max,
            None => self.replicas,
        }
    }
}

/// Autoscaling by CPU load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SpecAutoscale)]
pub struct Autoscale {
    /// The minimum number of pods.
    pub min: u32,
    /// The maximum number of pods; in a template, 0 means no autoscaling.
    pub max: u32,
    /// The target average CPU utilisation of a pod, in percent.
    pub cpu_percent: u32,
}

impl Autoscale {
    /// The initial number of pods: the requested one, clamped to the bounds.
    #[must_use]
    pub fn start(&self, replicas: u32) -> u32 {
        replicas.clamp(self.min.min(self.max), self.max)
    }
}

/// The Kubernetes workload that manages the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[schema(as = WorkloadKind)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Workload {
    /// Interchangeable pods.
    Deployment,
    /// Pods with a stable name and their own disk.
    StatefulSet,
    /// Runs on a schedule, one at a time.
    CronJob,
    /// One run, and another one for each change.
    Job,
}

/// One port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SpecPort)]
pub struct Port {
    /// Its name, unique in the spec.
    pub name: String,
    /// The port number the container listens on.
    pub port: u16,
    /// TCP or UDP.
    #[serde(default)]
    pub protocol: Protocol,
}

/// A transport protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "UPPERCASE")]
#[strum(serialize_all = "UPPERCASE", const_into_str)]
pub enum Protocol {
    /// The default.
    #[default]
    Tcp,
    /// For games and voice.
    Udp,
}

/// The resources of a pod; requests equal limits, because this is what is billed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SpecResources)]
pub struct Resources {
    /// Thousandths of a core.
    pub cpu_millis: u32,
    /// Mebibytes.
    pub memory_mib: u32,
    /// Whole GPUs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gpus: u32,
    /// Mebibytes of the node's disk: logs, scratch space and what is written to the image's files. 0 for
    /// the limit that holds for all pods of the project.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ephemeral_mib: u32,
}

/// A disk per pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SpecVolume)]
pub struct Volume {
    /// Its size.
    pub size_gib: u32,
    /// Its mount path in the container.
    pub path: String,
}

/// A folder on the node's disk, as long as the pod lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SpecScratch)]
pub struct Scratch {
    /// Its mount path in the container.
    pub path: String,
    /// How much it may hold, in mebibytes. A pod that writes more is evicted.
    pub size_mib: u32,
}

/// How readiness is checked on the first port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schema(as = SpecProbe)]
pub enum Probe {
    /// A GET on this path answers with success.
    Http {
        /// The path.
        path: String,
    },
    /// The port accepts a connection.
    Tcp,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references to such functions")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references to such functions")]
const fn is_false(set: &bool) -> bool {
    !*set
}
