//! Quotas: how much an org may have promised to it at once.

use serde::{Deserialize, Serialize};

use crate::spec::Spec;

/// What is counted. The list is the registry: append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Services that are not being deleted.
    Services,
    /// Thousandths of a core, over all pods.
    CpuMillis,
    /// Mebibytes of memory, over all pods.
    MemoryMib,
    /// Gibibytes of disk.
    StorageGib,
    /// Whole GPUs.
    Gpus,
}

impl Resource {
    /// Every resource, in the order people read them.
    pub const ALL: [Self; 5] =
        [Self::Services, Self::CpuMillis, Self::MemoryMib, Self::StorageGib, Self::Gpus];

    /// The text on the wire and in the names of columns.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::CpuMillis => "cpu_millis",
            Self::MemoryMib => "memory_mib",
            Self::StorageGib => "storage_gib",
            Self::Gpus => "gpus",
        }
    }
}

/// So much of each resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amounts {
    /// Services.
    pub services: i64,
    /// Thousandths of a core.
    pub cpu_millis: i64,
    /// Mebibytes of memory.
    pub memory_mib: i64,
    /// Gibibytes of disk.
    pub storage_gib: i64,
    /// Whole GPUs.
    pub gpus: i64,
}

impl Amounts {
    /// What a living service takes. A paused one keeps its room, so that it can always come back.
    #[must_use]
    pub fn of(spec: &Spec) -> Self {
        let pods = i64::from(spec.most_replicas());
        let per_pod = |amount: u32| i64::from(amount).saturating_mul(pods);
        Self {
            services: 1,
            cpu_millis: per_pod(spec.resources.cpu_millis),
            memory_mib: per_pod(spec.resources.memory_mib),
            storage_gib: per_pod(spec.volume.as_ref().map_or(0, |volume| volume.size_gib)),
            gpus: per_pod(spec.resources.gpus),
        }
    }

    /// The same without the service itself: what is held until its absence is verified.
    #[must_use]
    pub const fn capacity(self) -> Self {
        Self { services: 0, ..self }
    }

    /// How much of one resource.
    #[must_use]
    pub const fn get(&self, resource: Resource) -> i64 {
        match resource {
            Resource::Services => self.services,
            Resource::CpuMillis => self.cpu_millis,
            Resource::MemoryMib => self.memory_mib,
            Resource::StorageGib => self.storage_gib,
            Resource::Gpus => self.gpus,
        }
    }

    /// Each amount less the other's.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self {
            services: self.services.saturating_sub(other.services),
            cpu_millis: self.cpu_millis.saturating_sub(other.cpu_millis),
            memory_mib: self.memory_mib.saturating_sub(other.memory_mib),
            storage_gib: self.storage_gib.saturating_sub(other.storage_gib),
            gpus: self.gpus.saturating_sub(other.gpus),
        }
    }
}

/// What an org may have and what of it is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// The most.
    pub limit: Amounts,
    /// What is promised already.
    pub used: Amounts,
}

impl Quota {
    /// The resources of which so much more would be too much, with how much is left of each.
    pub fn short_of(&self, more: Amounts) -> impl Iterator<Item = (Resource, i64)> {
        let left = self.limit.less(self.used);
        Resource::ALL
            .into_iter()
            .filter(move |resource| {
                more.get(*resource) > 0 && more.get(*resource) > left.get(*resource)
            })
            .map(move |resource| (resource, left.get(resource).max(0)))
    }
}
