//! Quotas: the limits on what an org may allocate at once.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::spec::Spec;

/// The resources that quotas count. The list is a registry: append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[schema(as = QuotaResource)]
#[strum(serialize_all = "snake_case", const_into_str)]
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
    /// Projects whose absence is not verified.
    Projects,
    /// Endpoints whose port is not released.
    Endpoints,
}

impl Resource {
    /// Every resource, in display order.
    pub const ALL: [Self; 7] = [
        Self::Projects,
        Self::Services,
        Self::Endpoints,
        Self::CpuMillis,
        Self::MemoryMib,
        Self::StorageGib,
        Self::Gpus,
    ];
}

/// An amount of each resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = QuotaAmounts)]
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
    /// Projects. Older events have none.
    #[serde(default)]
    #[schema(required = true)]
    pub projects: i64,
    /// Endpoints, over all projects. Older events have none.
    #[serde(default)]
    #[schema(required = true)]
    pub endpoints: i64,
}

impl Amounts {
    /// Projects of an org whose limit was never set.
    pub const DEFAULT_PROJECTS: i64 = 100;
    /// Endpoints of an org whose limit was never set: a tenth of a cluster's ports.
    pub const DEFAULT_ENDPOINTS: i64 = 100;

    /// What a service uses. A paused one keeps its share, so that it can always resume.
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
            projects: 0,
            endpoints: 0,
        }
    }

    /// The same without the service itself: what stays allocated until its absence is verified.
    #[must_use]
    pub const fn capacity(self) -> Self {
        Self { services: 0, ..self }
    }

    /// The amount of one resource.
    #[must_use]
    pub const fn get(&self, resource: Resource) -> i64 {
        match resource {
            Resource::Services => self.services,
            Resource::CpuMillis => self.cpu_millis,
            Resource::MemoryMib => self.memory_mib,
            Resource::StorageGib => self.storage_gib,
            Resource::Gpus => self.gpus,
            Resource::Projects => self.projects,
            Resource::Endpoints => self.endpoints,
        }
    }

    /// Each amount minus the other's.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self {
            services: self.services.saturating_sub(other.services),
            cpu_millis: self.cpu_millis.saturating_sub(other.cpu_millis),
            memory_mib: self.memory_mib.saturating_sub(other.memory_mib),
            storage_gib: self.storage_gib.saturating_sub(other.storage_gib),
            gpus: self.gpus.saturating_sub(other.gpus),
            projects: self.projects.saturating_sub(other.projects),
            endpoints: self.endpoints.saturating_sub(other.endpoints),
        }
    }
}

/// Where the limits of a quota come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum LimitSource {
    /// Every new org has them.
    #[default]
    Default,
    /// An operator set them for this org, after its subscription began.
    Operator,
    /// The offer that the org subscribed to.
    Subscription,
    /// The project has limits of its own.
    Project,
}

/// The limits of an org and their usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// The limits.
    pub limit: Amounts,
    /// What is allocated already.
    pub used: Amounts,
    /// Where the limits come from.
    pub source: LimitSource,
}

impl Quota {
    /// The resources for which `more` exceeds the limit, each with the amount left.
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
