//! Transitions: observed state changes of pods, disks and nodes.
//!
//! Billing is computed from these, so they record who observed what and when, and nothing else. An
//! executor does not report transitions but [`ObjectSnapshot`]s: the current state. The store
//! compares each with the last stored snapshot, so a restart duplicates nothing and misses no end.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::id::{ServiceId, TransitionId};
use crate::key::Kind;

/// An update that an executor observed, in order of observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectUpdate {
    /// The current state of an object.
    Present {
        /// The object.
        snapshot: Box<ObjectSnapshot>,
        /// When that was observed.
        seen_at: Timestamp,
    },
    /// A watch reported that an object was deleted.
    Gone {
        /// Its uid.
        uid: String,
        /// The resourceVersion of its deletion.
        resource_version: String,
        /// When that was observed.
        seen_at: Timestamp,
    },
    /// A full list of a kind after a gap in its watch: an object that is not listed is gone.
    Listed {
        /// The kind.
        kind: Kind,
        /// The uids of all its objects.
        uids: BTreeSet<String>,
        /// The resourceVersion of the list.
        resource_version: String,
        /// When this observer's watch was last complete; none before the first list.
        since: Option<Timestamp>,
        /// When it was listed.
        seen_at: Timestamp,
    },
}

/// One object as observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectSnapshot {
    /// Its kind.
    pub kind: Kind,
    /// Its uid.
    pub uid: String,
    /// Its namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its resourceVersion.
    pub resource_version: String,
    /// How to find its service.
    pub belongs: Belongs,
    /// The state that transitions are derived from.
    pub level: Level,
}

/// How to find the service of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Belongs {
    /// By the name of the service's objects in the cluster.
    Named(String),
    /// By a claim: the object is the claim or its volume.
    Claim {
        /// The claim's namespace.
        namespace: String,
        /// The claim's name.
        name: String,
    },
    /// It belongs to the platform.
    Platform,
    /// It is foreign and not recorded.
    Others,
}

/// The state of an object that transitions are derived from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "of")]
pub enum Level {
    /// A pod.
    Pod(PodLevel),
    /// A claim or a volume.
    Disk(DiskLevel),
    /// A node.
    Node(NodeLevel),
}

/// The recorded state of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodLevel {
    /// When it was created.
    pub created_at: Option<Timestamp>,
    /// Its resource requests.
    pub size: Size,
    /// Its node.
    pub node: Option<String>,
    /// When it was scheduled to its node.
    pub scheduled_at: Option<Timestamp>,
    /// When its node started it.
    pub started_at: Option<Timestamp>,
    /// Its phase.
    pub phase: PodPhase,
    /// The reason from Kubernetes, if any: such as `Evicted`.
    pub reason: Option<String>,
    /// Whether it is ready.
    pub ready: bool,
    /// Since when.
    pub ready_at: Option<Timestamp>,
    /// Its containers by name, including init containers.
    pub containers: BTreeMap<String, ContainerLevel>,
    /// Its deletion timestamp.
    pub deleting_at: Option<Timestamp>,
}

/// The phase of a pod in Kubernetes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum PodPhase {
    /// Not all of its containers have started.
    #[default]
    Pending,
    /// At least one container runs.
    Running,
    /// Every container exited with success.
    Succeeded,
    /// Every container ended and at least one failed, or the pod was evicted.
    Failed,
    /// Its node does not respond.
    Unknown,
}

/// The recorded state of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerLevel {
    /// The number of restarts.
    pub restarts: u32,
    /// Since when it is running, if it is.
    pub running_since: Option<Timestamp>,
    /// How it last ended, if it did.
    pub ended: Option<End>,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[schema(as = ContainerEnd)]
pub struct End {
    /// Its exit code.
    pub code: i64,
    /// The reason from Kubernetes: such as `OOMKilled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// The recorded state of a claim or a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskLevel {
    /// When it was created.
    pub created_at: Option<Timestamp>,
    /// Its size; zero until there is a disk.
    pub size: Size,
    /// What it is bound to: a claim's volume, a volume's claim.
    pub bound: Option<String>,
    /// When its phase last changed, if Kubernetes records that.
    pub changed_at: Option<Timestamp>,
    /// Its deletion timestamp.
    pub deleting_at: Option<Timestamp>,
}

/// The recorded state of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeLevel {
    /// When it was created.
    pub created_at: Option<Timestamp>,
    /// Its capacity.
    pub size: Size,
    /// The labels that describe its machine type.
    pub class: BTreeMap<String, String>,
    /// Whether it is ready for pods.
    pub ready: bool,
    /// Why it is not ready.
    pub reason: Option<String>,
    /// Since when.
    pub ready_at: Option<Timestamp>,
    /// Its deletion timestamp.
    pub deleting_at: Option<Timestamp>,
}

/// Amounts of billed resources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = TransitionSize)]
pub struct Size {
    /// Thousandths of a core.
    #[serde(skip_serializing_if = "is_zero")]
    pub cpu_millis: u64,
    /// Memory.
    #[serde(skip_serializing_if = "is_zero")]
    pub memory_bytes: u64,
    /// GPUs.
    #[serde(skip_serializing_if = "is_zero")]
    pub gpus: u64,
    /// Disk.
    #[serde(skip_serializing_if = "is_zero")]
    pub disk_bytes: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(amount: &u64) -> bool {
    *amount == 0
}

/// A state change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", tag = "is")]
#[schema(as = TransitionDetail)]
pub enum What {
    /// It exists.
    Appeared,
    /// It has this size from now on.
    Sized(Size),
    /// A pod was scheduled to a node.
    Scheduled {
        /// The node.
        node: String,
    },
    /// A pod was started by its node.
    Started,
    /// The phase of a pod changed.
    Phase {
        /// The new phase.
        phase: PodPhase,
        /// The reason from Kubernetes, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A pod or a node is ready.
    Ready,
    /// A pod or a node is no longer ready.
    Unready {
        /// The reason from Kubernetes, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A container started.
    ContainerStarted {
        /// The container.
        container: String,
        /// The number of restarts before.
        restarts: u32,
    },
    /// A container ended.
    ContainerEnded {
        /// The container.
        container: String,
        /// How it ended.
        #[serde(flatten)]
        end: End,
    },
    /// A claim was bound to its volume, or a volume to its claim.
    Bound {
        /// What it is bound to.
        to: String,
    },
    /// It is no longer bound.
    Released,
    /// A node has this class from now on.
    Classed {
        /// The labels that describe it.
        class: BTreeMap<String, String>,
    },
    /// Its deletion was requested.
    Deleting,
    /// It is gone.
    Gone,
    /// Its kind was not watched: changes in that time were not observed.
    Unobserved,
}

impl What {
    /// The container it is about, if any.
    #[must_use]
    pub fn container(&self) -> Option<&str> {
        match self {
            Self::ContainerStarted { container, .. } | Self::ContainerEnded { container, .. } => {
                Some(container)
            }
            Self::Appeared
            | Self::Sized(_)
            | Self::Scheduled { .. }
            | Self::Started
            | Self::Phase { .. }
            | Self::Ready
            | Self::Unready { .. }
            | Self::Bound { .. }
            | Self::Released
            | Self::Classed { .. }
            | Self::Deleting
            | Self::Gone
            | Self::Unobserved => None,
        }
    }
}

/// One change from a recorded state to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateChange {
    /// What changed.
    pub what: What,
    /// When, by Kubernetes' timestamp; none if it has none.
    pub at: Option<Timestamp>,
}

/// A stored transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// Its id; ids increase in the order in which transitions were recorded.
    pub id: TransitionId,
    /// Its service; none for objects of the platform.
    pub service: Option<ServiceId>,
    /// The kind of the object.
    pub kind: Kind,
    /// The uid of the object; empty for a gap, which concerns all objects of a kind.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// What changed.
    pub what: What,
    /// When, by Kubernetes' timestamp.
    pub at: Option<Timestamp>,
    /// When it was observed.
    pub seen_at: Timestamp,
    /// If it happened during a gap: it was between this time and `seen_at`.
    pub after: Option<Timestamp>,
    /// The object's resourceVersion when it was observed.
    pub resource_version: String,
    /// Who observed it.
    pub observer: String,
    /// The epoch of the cluster's lease at that time.
    pub epoch: i64,
}
