//! Known causes outside Trueup why pods do not run, each with advice.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

/// Why pods do not run or are not created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[schema(as = ConditionCause)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Cause {
    /// The image cannot be pulled, for an unknown reason.
    ImagePull,
    /// The image's name is invalid.
    ImageName,
    /// The registry has no such image.
    ImageMissing,
    /// The registry requires credentials for the image.
    ImageForbidden,
    /// The container starts and exits repeatedly.
    CrashLoop,
    /// The container exceeded its memory limit.
    OutOfMemory,
    /// The container was stopped because its liveness probe failed.
    Liveness,
    /// The container runs and has not passed its startup probe yet.
    Startup,
    /// The container runs and does not pass its readiness probe.
    Readiness,
    /// No node accepts the pod.
    Unschedulable,
    /// No node has enough CPU.
    NoCpu,
    /// No node has enough memory.
    NoMemory,
    /// No node has enough GPUs.
    NoGpu,
    /// All nodes are at their pod limit.
    NoPlace,
    /// The remaining nodes have taints that the pod does not tolerate.
    Tainted,
    /// No node matches the pod's node selector.
    NoSuchNode,
    /// No node satisfies the pod's affinity or anti-affinity rules.
    Affinity,
    /// The namespace has reached its quota.
    QuotaExceeded,
    /// An admission policy of the cluster rejects the pods.
    NotAdmitted,
    /// Its disk is not provisioned yet.
    VolumePending,
    /// One of its volumes cannot be mounted.
    MountFailed,
    /// The container could not be configured or created.
    ContainerConfig,
    /// The pod was evicted from its node.
    Evicted,
    /// Its node does not respond.
    NodeLost,
    /// The rollout exceeded its progress deadline.
    SlowStart,
    /// The program of a run exited with an error.
    Exited,
    /// A run exceeded its time limit.
    TimeLimit,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 27] = [
        Self::ImagePull,
        Self::ImageName,
        Self::ImageMissing,
        Self::ImageForbidden,
        Self::CrashLoop,
        Self::OutOfMemory,
        Self::Liveness,
        Self::Startup,
        Self::Readiness,
        Self::Unschedulable,
        Self::NoCpu,
        Self::NoMemory,
        Self::NoGpu,
        Self::NoPlace,
        Self::Tainted,
        Self::NoSuchNode,
        Self::Affinity,
        Self::QuotaExceeded,
        Self::NotAdmitted,
        Self::VolumePending,
        Self::MountFailed,
        Self::ContainerConfig,
        Self::Evicted,
        Self::NodeLost,
        Self::SlowStart,
        Self::Exited,
        Self::TimeLimit,
    ];

    /// Whether this usually resolves by itself.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        match self {
            // A failed run is retried; once it is not, the run itself is reported as failed. An
            // evicted pod is replaced elsewhere. Every container fails its probes while it starts;
            // if that lasts too long, the workload reports it.
            Self::VolumePending
            | Self::Exited
            | Self::Evicted
            | Self::Startup
            | Self::Readiness => true,
            Self::ImagePull
            | Self::ImageName
            | Self::ImageMissing
            | Self::ImageForbidden
            | Self::CrashLoop
            | Self::OutOfMemory
            | Self::Liveness
            | Self::Unschedulable
            | Self::NoCpu
            | Self::NoMemory
            | Self::NoGpu
            | Self::NoPlace
            | Self::Tainted
            | Self::NoSuchNode
            | Self::Affinity
            | Self::QuotaExceeded
            | Self::NotAdmitted
            | Self::MountFailed
            | Self::ContainerConfig
            | Self::NodeLost
            | Self::SlowStart
            | Self::TimeLimit => false,
        }
    }

    /// What to do, in one sentence.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::ImagePull => {
                "check the image's name and tag, and that the cluster can reach its registry"
            }
            Self::ImageName => "write the image as REGISTRY/NAME:TAG, in lower case",
            Self::ImageMissing => "check the image's name and tag: its registry has no such image",
            Self::ImageForbidden => {
                "make the image public, or ask the operator to add credentials for its registry"
            }
            Self::CrashLoop => {
                "read the container's log: it starts and exits; fix the program or its variables"
            }
            Self::OutOfMemory => "choose a plan with more memory, or make the program use less",
            Self::Liveness => {
                "read the container's log: it runs and stops answering its liveness check"
            }
            Self::Startup => {
                "wait for the container to start; if this lasts, check its log and startup probe"
            }
            Self::Readiness => {
                "wait for the container to be ready; if this lasts, check its port and path"
            }
            Self::Unschedulable => "choose a smaller size, or ask the operator to add nodes",
            Self::NoCpu => "choose a plan with fewer cores, or ask the operator to add nodes",
            Self::NoMemory => "choose a plan with less memory, or ask the operator to add nodes",
            Self::NoGpu => {
                "request fewer GPUs, wait until some are free, or ask the operator to add some"
            }
            Self::NoPlace => {
                "ask the operator to add nodes: the existing nodes are at their pod limit"
            }
            Self::Tainted => {
                "ask the operator: the nodes with free capacity are reserved or unhealthy"
            }
            Self::NoSuchNode => "ask the operator to add nodes of the required class",
            Self::Affinity => "request fewer pods, or ask the operator to add nodes",
            Self::QuotaExceeded => {
                "delete or shrink something in this project, or ask the operator for a larger quota"
            }
            Self::NotAdmitted => {
                "ask the operator: a policy of the cluster refuses the pods of this service"
            }
            Self::VolumePending => {
                "wait until the disk is provisioned; if this lasts, ask the operator"
            }
            Self::MountFailed => {
                "wait until its previous node releases the disk; if this lasts, ask the operator"
            }
            Self::ContainerConfig => "check the variables and secrets that the container refers to",
            Self::Evicted => {
                "no action needed: the pod is replaced; if this repeats, ask the operator"
            }
            Self::NodeLost => "no action needed: its pods are replaced within minutes",
            Self::SlowStart => {
                "read the container's log, and roll back if the last change broke it"
            }
            Self::Exited => "read the run's log, then fix the program, its arguments or variables",
            Self::TimeLimit => {
                "raise the time limit, or find out from the log what the run waits for"
            }
        }
    }
}
