//! The whole product: the real binary with its embedded Postgres and a real local Kubernetes.
//!
//! Nothing in here reaches into the process. Tests do what a person can do: run commands, call the
//! API, look into the cluster, and end processes at the worst moment.

// Clippy takes helpers for test code only below `cfg(test)`.
#[cfg(test)]
mod access;
#[cfg(test)]
mod acknowledged;
#[cfg(test)]
mod bad_days;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod desk;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod exact;
#[cfg(test)]
mod findings;
#[cfg(test)]
mod install;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod load;
#[cfg(test)]
mod log;
#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod pair;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod proof;
#[cfg(test)]
mod real_node;
#[cfg(test)]
mod recognise;
#[cfg(test)]
mod replicas;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod soak;
#[cfg(test)]
mod story;
#[cfg(test)]
mod tally;
#[cfg(test)]
mod wait;
