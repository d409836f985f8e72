//! What a service shall be, after its template and parameters were resolved. Stored, never re-resolved.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::name::Name;

/// A resolved spec: everything `rules::render` needs to make objects, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Which workload carries the pods.
    pub workload: Workload,
    /// The container image.
    pub image: String,
    /// How many pods. Runs of a cron or a job have one.
    pub replicas: u32,
    /// Lets the number of pods follow the load; without it there are always `replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscale: Option<Autoscale>,
    /// When a cron runs, as five fields in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// How often a run that failed is tried again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// How many seconds a run may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_s: Option<u32>,
    /// Runs instead of the image's entry point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Arguments for the image's entry point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Ports the container listens on; the first one is probed. Without any there is no address.
    #[serde(default)]
    pub ports: Vec<Port>,
    /// Plain environment variables.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// Names of secret variables whose values Trueup generates.
    #[serde(default)]
    pub generated_secrets: Vec<String>,
    /// What each pod may use.
    pub resources: Resources,
    /// The plan that `resources` were taken from, and that is paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Name>,
    /// The class of nodes that the plan sells; any node when it says none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Name>,
    /// Raised to replace every pod without changing anything else.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restart: u32,
    /// Disk, for workloads that keep state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<Volume>,
    /// The readiness check; without one a running pod is a ready pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
}

impl Spec {
    /// The most pods there can be: what quota and price count.
    #[must_use]
    pub const fn most_replicas(&self) -> u32 {
        match &self.autoscale {
            Some(autoscale) => autoscale.max,
            None => self.replicas,
        }
    }
}

/// How the number of pods follows the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Autoscale {
    /// The fewest pods.
    pub min: u32,
    /// The most pods; in a template, 0 stands for no autoscaling.
    pub max: u32,
    /// How much of its CPU a pod shall use on average, in percent.
    pub cpu_percent: u32,
}

impl Autoscale {
    /// The number of pods to begin with: the one that is asked for, within the bounds.
    #[must_use]
    pub fn start(&self, replicas: u32) -> u32 {
        replicas.clamp(self.min.min(self.max), self.max)
    }
}

/// Which Kubernetes workload carries the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Interchangeable pods.
    Deployment,
    /// Pods with a stable name and their own disk.
    StatefulSet,
    /// A run by the clock, again and again, one at a time.
    CronJob,
    /// One run, and one more for each change.
    Job,
}

/// One port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// What it is for, unique in the spec.
    pub name: String,
    /// The number the container listens on.
    pub port: u16,
    /// TCP or UDP.
    #[serde(default)]
    pub protocol: Protocol,
}

/// A transport.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// The usual one.
    #[default]
    Tcp,
    /// For games and voice.
    Udp,
}

impl Protocol {
    /// The text in Kubernetes, in the database and on screen.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }
}

/// What a pod may use; requests equal limits, because this is what is sold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// Thousandths of a core.
    pub cpu_millis: u32,
    /// Mebibytes.
    pub memory_mib: u32,
    /// Whole GPUs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gpus: u32,
}

/// A disk per pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// How large.
    pub size_gib: u32,
    /// Where the container sees it.
    pub path: String,
}

/// How readiness is checked on the first port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
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
