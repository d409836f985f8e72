//! Raw transitions: what happened to pods, disks and nodes, as it was seen from outside.
//!
//! Bills are computed from these, so they say who saw what and when, and nothing else. An executor
//! does not tell transitions but [`ObjectSnapshot`]s: what stands there now. What changed since the last
//! sight that was stored is decided where that one is stored, so a restart doubles nothing and
//! misses no end.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{ServiceId, TransitionId};
use crate::key::Kind;

/// What an executor noticed, in the order in which it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectUpdate {
    /// An object stands so.
    Present {
        /// The object.
        sight: Box<ObjectSnapshot>,
        /// When that was seen.
        seen_at: Timestamp,
    },
    /// A watch said that an object is gone.
    Gone {
        /// Which incarnation.
        uid: String,
        /// The version at which it went.
        resource_version: String,
        /// When that was seen.
        seen_at: Timestamp,
    },
    /// A kind was listed whole after it had not been watched: what is not in the list is gone.
    Listed {
        /// Which kind.
        kind: Kind,
        /// Every incarnation there is.
        uids: BTreeSet<String>,
        /// The version the list is true at.
        resource_version: String,
        /// When this observer last knew that it missed nothing; never before the first list.
        since: Option<Timestamp>,
        /// When it was listed.
        seen_at: Timestamp,
    },
}

/// One object as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectSnapshot {
    /// What it is.
    pub kind: Kind,
    /// Which incarnation.
    pub uid: String,
    /// Where it lives; empty for kinds without a namespace.
    pub namespace: String,
    /// What it is called.
    pub name: String,
    /// Its version then.
    pub resource_version: String,
    /// How its service is found.
    pub belongs: Belongs,
    /// What is known of it.
    pub level: Level,
}

/// How the service of an object is found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Belongs {
    /// By the name that the service's objects have in the cluster.
    Named(String),
    /// By the claim that it is or that it stands behind.
    Claim {
        /// The claim's namespace.
        namespace: String,
        /// The claim's name.
        name: String,
    },
    /// To the platform.
    Platform,
    /// To somebody else: not ours to record.
    Others,
}

/// What is known of an object: the part of it that transitions are about.
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

/// What is known of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodLevel {
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// What it asks for.
    pub size: Size,
    /// Its node.
    pub node: Option<String>,
    /// When it was given to its node.
    pub scheduled_at: Option<Timestamp>,
    /// When its node took it up.
    pub started_at: Option<Timestamp>,
    /// Where it is in its life.
    pub phase: PodPhase,
    /// Why, where Kubernetes says so: such as `Evicted`.
    pub reason: Option<String>,
    /// Whether it passes its readiness check.
    pub ready: bool,
    /// Since when.
    pub ready_at: Option<Timestamp>,
    /// Its containers by name, those that only begin it too.
    pub containers: BTreeMap<String, ContainerLevel>,
    /// When its deletion was asked for.
    pub deleting_at: Option<Timestamp>,
}

/// Where a pod is in its life, as Kubernetes says it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PodPhase {
    /// It has not started all it needs.
    #[default]
    Pending,
    /// At least one container runs.
    Running,
    /// Every container ended well.
    Succeeded,
    /// Every container ended, one of them badly; or it was taken off its node.
    Failed,
    /// Its node cannot be asked.
    Unknown,
}

/// What is known of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerLevel {
    /// How often it was started again.
    pub restarts: u32,
    /// Since when it runs, if it does.
    pub running_since: Option<Timestamp>,
    /// How it ended last, if it did.
    pub ended: Option<End>,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct End {
    /// Its exit code.
    pub code: i64,
    /// What Kubernetes calls it: such as `OOMKilled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it had begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// What is known of a claim or a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskLevel {
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// How large it is; nothing until there is a disk.
    pub size: Size,
    /// What it is bound to: a claim's volume, a volume's claim.
    pub bound: Option<String>,
    /// When its phase last changed, where Kubernetes keeps that.
    pub changed_at: Option<Timestamp>,
    /// When its deletion was asked for.
    pub deleting_at: Option<Timestamp>,
}

/// What is known of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeLevel {
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// What it has.
    pub size: Size,
    /// The labels that say what kind of machine it is.
    pub class: BTreeMap<String, String>,
    /// Whether it is ready for pods.
    pub ready: bool,
    /// Why it is not.
    pub reason: Option<String>,
    /// Since when.
    pub ready_at: Option<Timestamp>,
    /// When its deletion was asked for.
    pub deleting_at: Option<Timestamp>,
}

/// How much of what is sold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_zero(amount: &u64) -> bool {
    *amount == 0
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum What {
    /// It is there.
    Appeared,
    /// It is this large, from now on.
    Sized(Size),
    /// A pod was given to a node.
    Scheduled {
        /// Which.
        node: String,
    },
    /// Its node took a pod up.
    Started,
    /// A pod came to another part of its life.
    Phase {
        /// Which.
        phase: PodPhase,
        /// Why, where Kubernetes says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A pod or a node is ready.
    Ready,
    /// A pod or a node is not ready any more.
    Unready {
        /// Why, where Kubernetes says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A container runs.
    ContainerStarted {
        /// Which.
        container: String,
        /// How often it was started again before.
        restarts: u32,
    },
    /// A container ended.
    ContainerEnded {
        /// Which.
        container: String,
        /// How.
        #[serde(flatten)]
        end: End,
    },
    /// A claim has its volume, or a volume its claim.
    Bound {
        /// What it is bound to.
        to: String,
    },
    /// It is bound no more.
    Released,
    /// A node is of this class, from now on.
    Classed {
        /// The labels that say so.
        class: BTreeMap<String, String>,
    },
    /// Its deletion was asked for.
    Deleting,
    /// It is gone.
    Gone,
    /// Nobody watched its kind: what happened meanwhile was not seen.
    Unobserved,
}

impl What {
    /// The container it is about, if it is about one.
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

/// One step from a level to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateChange {
    /// What happened.
    pub what: What,
    /// When, by Kubernetes' own stamp; nothing where it keeps none.
    pub at: Option<Timestamp>,
}

/// A transition as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// Its id; ids grow in the order in which transitions were written down.
    pub id: TransitionId,
    /// Whose it is; nobody's for what belongs to the platform.
    pub service: Option<ServiceId>,
    /// What kind of object.
    pub kind: Kind,
    /// Which incarnation; empty for a gap, which is about all of a kind.
    pub uid: String,
    /// What it is called.
    pub name: String,
    /// What happened.
    pub what: What,
    /// When, by Kubernetes' own stamp.
    pub at: Option<Timestamp>,
    /// When it was seen.
    pub seen_at: Timestamp,
    /// It happened unseen, between this and `seen_at`.
    pub after: Option<Timestamp>,
    /// The object's version when it was seen.
    pub resource_version: String,
    /// Who saw it.
    pub observer: String,
    /// Under which epoch of the cluster's lease.
    pub epoch: i64,
}
