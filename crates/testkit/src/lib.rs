//! Placeholder.

pub mod contract;
pub mod fake_cluster;
pub mod real_kube;
