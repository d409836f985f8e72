//! The causes outside of Trueup that it can name, each with a sentence that helps.

use serde::{Deserialize, Serialize};

/// Why pods do not run, or are not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The image cannot be had, and nobody says why.
    ImagePull,
    /// The image's name is none.
    ImageName,
    /// The registry has no such image.
    ImageMissing,
    /// The registry gives the image to others only.
    ImageForbidden,
    /// The container starts and stops again and again.
    CrashLoop,
    /// The container took more memory than it has.
    OutOfMemory,
    /// The container was stopped because it did not say that it lives.
    Liveness,
    /// The container runs and has not said that it has started.
    Startup,
    /// The container runs and does not say that it is ready.
    Readiness,
    /// No node takes the pod.
    Unschedulable,
    /// No node has the cores.
    NoCpu,
    /// No node has the memory.
    NoMemory,
    /// No node has the GPUs.
    NoGpu,
    /// The nodes carry as many pods as they may.
    NoPlace,
    /// The nodes that are left keep such pods away.
    Tainted,
    /// No node is of the kind that is asked for.
    NoSuchNode,
    /// The pod may not be, or must be, near others.
    Affinity,
    /// The namespace may not use more.
    QuotaExceeded,
    /// The cluster does not let such pods in.
    NotAdmitted,
    /// Its disk is not there yet.
    VolumePending,
    /// Something that it mounts cannot be had.
    MountFailed,
    /// The container could not be configured or created.
    ContainerConfig,
    /// The pod was taken off its node on purpose.
    Evicted,
    /// The node it runs on does not answer.
    NodeLost,
    /// It took longer than it may.
    SlowStart,
    /// The program of a run ended with an error.
    Exited,
    /// A run took longer than it may.
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

    /// Whether this passes by itself as a rule: worth saying, but nothing is broken.
    #[must_use]
    pub const fn is_passing(self) -> bool {
        match self {
            // A run is tried again; when it is not, the run itself says that it failed. A pod that
            // was taken off its node is made again elsewhere. Every start passes its checks late;
            // when that lasts too long the workload says so.
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

    /// One sentence that says what to do.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::ImagePull => {
                "check the image's name and tag, and that the cluster can reach its registry"
            }
            Self::ImageName => "write the image as REGISTRY/NAME:TAG, in lower case",
            Self::ImageMissing => "check the image's name and tag: its registry has no such image",
            Self::ImageForbidden => {
                "the registry wants credentials: make the image public, or ask the operator to add them"
            }
            Self::CrashLoop => {
                "read the container's log: it starts and exits; fix the program or its variables"
            }
            Self::OutOfMemory => "choose a plan with more memory, or make the program use less",
            Self::Liveness => {
                "read the container's log: it runs and stops answering its liveness check"
            }
            Self::Startup => {
                "wait for it to start; if this lasts, read its log and check its startup probe"
            }
            Self::Readiness => {
                "wait for it to be ready; if this lasts, check that it listens on its port and path"
            }
            Self::Unschedulable => "choose a smaller size, or ask the operator to add nodes",
            Self::NoCpu => "choose a plan with fewer cores, or ask the operator to add nodes",
            Self::NoMemory => "choose a plan with less memory, or ask the operator to add nodes",
            Self::NoGpu => "ask for fewer GPUs, wait until some are free, or ask for more of them",
            Self::NoPlace => "ask the operator to add nodes: those there are carry all they may",
            Self::Tainted => "ask the operator: the nodes with room are kept for others or ill",
            Self::NoSuchNode => "ask the operator for nodes of the kind that the template wants",
            Self::Affinity => "ask for fewer pods, or ask the operator to add nodes",
            Self::QuotaExceeded => {
                "delete or shrink something in this project, or ask the operator for a larger quota"
            }
            Self::NotAdmitted => {
                "ask the operator: a policy of the cluster refuses the pods of this service"
            }
            Self::VolumePending => {
                "its disk is being made; if this lasts, ask the operator about the storage class"
            }
            Self::MountFailed => {
                "wait for its disk to leave the node it was on; if this lasts, ask the operator"
            }
            Self::ContainerConfig => "check variables and secrets that the container refers to",
            Self::Evicted => {
                "nothing: another pod takes its place; if this idempotency_keys, ask the operator"
            }
            Self::NodeLost => "nothing: its pods move in some minutes; the operator sees the node",
            Self::SlowStart => {
                "read the container's log, and roll back if the last change broke it"
            }
            Self::Exited => "read the run's log, then fix the program, its arguments or variables",
            Self::TimeLimit => {
                "give it a longer time limit, or find out in its log what it waits for"
            }
        }
    }
}
