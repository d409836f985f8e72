//! Quotas on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// So much of each resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "services": 200, "cpu_millis": 100_000, "memory_mib": 262_144, "storage_gib": 2000, "gpus": 8
}))]
pub struct Amounts {
    /// Services that are not being deleted.
    #[schema(example = 200)]
    pub services: i64,
    /// Thousandths of a core over all pods.
    #[schema(example = 100_000)]
    pub cpu_millis: i64,
    /// Mebibytes of memory over all pods.
    #[schema(example = 262_144)]
    pub memory_mib: i64,
    /// Gibibytes of disk.
    #[schema(example = 2000)]
    pub storage_gib: i64,
    /// Whole GPUs.
    #[schema(example = 8)]
    pub gpus: i64,
}

/// What an org may have and what of it is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Quota {
    /// The most.
    pub limit: Amounts,
    /// What is promised already. Capacity of a deleted service counts until it is verified to be gone.
    pub used: Amounts,
    /// What may still be asked for.
    pub left: Amounts,
}
